import ArgumentParser
import PushAPI
import PushModel
import StrictJSON

extension WebhooksCommand {
    struct Ping: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Send a test message.", discussion: "'pushctl webhooks messages' shows what came of it.")
        @OptionGroup var connection: ConnectionOptions
        @OptionGroup var output: OutputOptions
        @Argument(help: "The app.") var app: String
        @Argument(help: "The webhook's id.") var id: String

        func run() async throws {
            let answer = try await connection.withClient { client in try await client.post(webhooksPath(app, id) + "/ping") { _ in } }
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
