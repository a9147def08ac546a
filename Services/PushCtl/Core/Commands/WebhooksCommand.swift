import ArgumentParser
import PushAPI
import StrictJSON

struct WebhooksCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "webhooks", abstract: "Events by HTTP, signed, for those who cannot reach the broker.",
        discussion: """
            An event is one such as notification.completed, a kind such as token.*, or *. A webhook that is disabled says why; what waits for \
            it is sent when it is enabled again, as long as it is kept.
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
