import ArgumentParser
import PushAPI
import PushModel
import StrictJSON

struct WebhooksCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "webhooks", abstract: "Events by HTTP, signed, for those who cannot reach the broker.",
        discussion: """
            An event is one such as notification.completed, a kind such as token.*, or *. A webhook that is disabled says why; what waits \
            for it is sent when it is enabled again, as long as it is kept.
            """,
        subcommands: [
            List.self, Create.self, Update.self, Delete.self, Rotate.self, Ping.self, Messages.self, Redeliver.self,
        ])

    struct List: AsyncParsableCommand {
        static let configuration = CommandConfiguration(abstract: "List an app's webhooks.")
        @OptionGroup var connection: ConnectionOptions
        @OptionGroup var output: OutputOptions
        @Argument(help: "The app.") var app: String

        func run() async throws {
            let answer = try await connection.withClient { client in try await client.get(webhooksPath(app)) }
            try output.show(answer, webhookTable(answer["webhooks"]?.arrayValue ?? []))
        }
    }

    struct Create: AsyncParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Make a webhook. Its secret is shown once.")
        @OptionGroup var connection: ConnectionOptions
        @OptionGroup var output: OutputOptions
        @Argument(help: "The app.") var app: String
        @Argument(help: "Where events go, an https URL.") var url: String
        @Option(help: "A comma-separated list of events.") var events: String
        @Option(help: "What people call it.") var description: String?
        @Flag(help: "Print the secret alone.") var quiet = false

        func run() async throws {
            let made = try await connection.withClient { client in
                try await client.post(webhooksPath(app)) { body in
                    body.field("url", url)
                    body.field("events", events.split(separator: ",").map(String.init))
                    body.field("description", description)
                }
            }
            let text = try shownOnce(made, quiet: quiet)
            try output.show(made, text)
        }
    }

    struct Update: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Change, disable or enable a webhook. What is not named stays as it is.")
        @OptionGroup var connection: ConnectionOptions
        @OptionGroup var output: OutputOptions
        @Argument(help: "The app.") var app: String
        @Argument(help: "The webhook's id, as 'pushctl webhooks list' shows it.") var id: String
        @Option(help: "Where events go, an https URL.") var to: String?
        @Option(help: "A comma-separated list of events.") var events: String?
        @Option(help: "What people call it.") var description: String?
        @Flag(help: "Whether anything is sent to it.") var state: State?

        enum State: EnumerableFlag {
            case enable, disable
        }

        func validate() throws {
            guard to != nil || events != nil || description != nil || state != nil else {
                throw ValidationError("say what to change, for example --enable")
            }
        }

        func run() async throws {
            let webhook = try await connection.withClient { client in
                try await client.patch(webhooksPath(app, id)) { body in
                    body.field("url", to)
                    if let events { body.field("events", events.split(separator: ",").map(String.init)) }
                    body.field("description", description)
                    if let state { body.field("enabled", state == .enable) }
                }
            }
            try output.show(webhook, webhookTable([webhook]))
        }
    }

    struct Delete: AsyncParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Delete a webhook, with everything that waits for it.")
        @OptionGroup var connection: ConnectionOptions
        @OptionGroup var output: OutputOptions
        @Argument(help: "The app.") var app: String
        @Argument(help: "The webhook's id.") var id: String

        func run() async throws {
            _ = try await connection.withClient { client in try await client.delete(webhooksPath(app, id)) }
            try output.show({ $0.field("deleted", id) }, "deleted")
        }
    }

    struct Rotate: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Make a new secret; for a while messages are signed with both. It is shown once.")
        @OptionGroup var connection: ConnectionOptions
        @OptionGroup var output: OutputOptions
        @Argument(help: "The app.") var app: String
        @Argument(help: "The webhook's id.") var id: String
        @Option(help: "How many seconds the old secret is signed with too: 0 to 604800 (7 days).") var overlapSeconds = 86_400
        @Flag(help: "Print the secret alone.") var quiet = false

        func validate() throws {
            guard (0...604_800).contains(overlapSeconds) else {
                throw ValidationError("--overlap-seconds must be from 0 to 604800 (7 days)")
            }
        }

        func run() async throws {
            let rotated = try await connection.withClient { client in
                try await client.post(webhooksPath(app, id) + "/rotate") { body in body.field("overlap_seconds", overlapSeconds) }
            }
            let text = try shownOnce(rotated, quiet: quiet)
            try output.show(rotated, text)
        }
    }
}

func webhooksPath(_ app: String, _ id: String? = nil) -> String {
    "/v1/apps/\(app.percentEncoded)/webhooks" + (id.map { "/" + $0.percentEncoded } ?? "")
}

private func shownOnce(_ webhook: JSONValue, quiet: Bool) throws -> String {
    guard let secret = webhook["secret"]?.stringValue else { throw CommandFailure("the answer holds no secret") }
    return quiet ? secret : "\(secret)\nThis is the only time it is shown. Id: \(webhook["id"]?.stringValue ?? "?")"
}

/// One row per webhook.
func webhookTable(_ webhooks: [JSONValue]) -> Table {
    var table = Table("ID", "URL", "EVENTS", "STATE", "LAST SUCCESS", "FAILING SINCE", "LAST FAILURE")
    for webhook in webhooks {
        table.add(
            webhook["id"]?.stringValue ?? "?", webhook["url"]?.stringValue ?? "?",
            (webhook["events"]?.arrayValue ?? []).compactMap(\.stringValue).joined(separator: ","),
            webhook["enabled"]?.boolValue == true ? "enabled" : "disabled: \(webhook["disabled_reason"]?.stringValue ?? "?")",
            webhook["last_success_at"]?.stringValue ?? "never", webhook["failing_since"]?.stringValue ?? "-",
            webhook["last_failure"]?.stringValue ?? "-")
    }
    return table
}

extension WebhooksCommand {
    struct Ping: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Send a test message.", discussion: "'pushctl webhooks messages' shows what came of it.")
        @OptionGroup var connection: ConnectionOptions
        @OptionGroup var output: OutputOptions
        @Argument(help: "The app.") var app: String
        @Argument(help: "The webhook's id.") var id: String

        func run() async throws {
            let answer = try await connection.withClient { client in try await client.tree(.init(.post, webhooksPath(app, id) + "/ping")) }
            try output.show(answer, "sent as \(answer["message"]?.stringValue ?? "?")")
        }
    }

    struct Messages: AsyncParsableCommand {
        static let configuration = CommandConfiguration(abstract: "List what was sent to a webhook and what waits, the newest first.")
        @OptionGroup var connection: ConnectionOptions
        @OptionGroup var output: OutputOptions
        @Argument(help: "The app.") var app: String
        @Argument(help: "The webhook's id.") var id: String
        @Option(help: "Only those that are pending, delivered or failed.") var state: String?
        @Option(help: "Show at most so many.") var limit = 100

        func validate() throws {
            guard (1...1000).contains(limit) else { throw ValidationError("--limit must be from 1 to 1000") }
        }

        func run() async throws {
            let answer = try await connection.withClient { client in
                try await client.get(
                    webhooksPath(app, id) + "/messages?limit=\(limit)" + (state.map { "&state=\($0.percentEncoded)" } ?? ""))
            }
            try output.show(answer, webhookMessageTable(answer["messages"]?.arrayValue ?? []))
        }
    }

    struct Redeliver: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Send messages again, under the same ids.", discussion: "Receivers that remember ids pass over what they had.")
        @OptionGroup var connection: ConnectionOptions
        @OptionGroup var output: OutputOptions
        @Argument(help: "The app.") var app: String
        @Argument(help: "The webhook's id.") var id: String
        @Option(help: "This message; may be given several times.") var message: [String] = []
        @Flag(help: "Everything that was given up.") var failed = false

        func validate() throws {
            guard message.isEmpty == failed else { throw ValidationError("give --message, or --failed") }
            guard message.count <= 1000 else { throw ValidationError("at most 1000 times --message") }
            for text in message where PushID(text) == nil { throw ValidationError("\(text) is not a message's id, a UUID") }
        }

        func run() async throws {
            try await connection.withClient { client in
                var sum: Int64 = 0
                while true {
                    let answer = try await client.post(webhooksPath(app, id) + "/redeliver") { body in
                        if failed { body.field("failed", true) } else { body.field("messages", message) }
                    }
                    let number = answer["redelivered"]?.integerValue ?? 0
                    sum += number
                    // Of messages that were given up, the service takes a bounded number each time.
                    guard failed, number >= 1000 else { break }
                }
                try output.show({ $0.field("redelivered", sum) }, "\(counted(sum, "message", "messages")) to be sent again")
            }
        }
    }
}

/// One row per message.
func webhookMessageTable(_ messages: [JSONValue]) -> Table {
    var table = Table("ID", "EVENT", "STATE", "ATTEMPTS", "LAST ATTEMPT", "STATUS", "ERROR", "NEXT")
    for message in messages {
        table.add(
            message["id"]?.stringValue ?? "?", message["event"]?.stringValue ?? "?", message["state"]?.stringValue ?? "?",
            "\(message["attempts"]?.integerValue ?? 0)", message["last_attempt_at"]?.stringValue ?? "never",
            message["last_status"]?.integerValue.map { "\($0)" } ?? "-", message["last_error"]?.stringValue ?? "-",
            message["due_at"]?.stringValue ?? "-")
    }
    return table
}
