import ArgumentParser
import FoundationEssentials
import PushModel
import StrictJSON

struct SendCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "send", abstract: "Send a notification to a user or to one installation.",
        discussion: "Either --title and/or --body, or --payload FILE with the whole APNs payload, which is sent verbatim.")
    @OptionGroup var connection: ConnectionOptions
    @Argument(help: "The app.") var app: String
    @Option(help: "To every device of this user.") var user: String?
    @Option(help: "To this installation.") var installation: String?
    @Option(help: "The alert's title.") var title: String?
    @Option(help: "The alert's body.") var body: String?
    @Option(help: "A file with the APNs payload, a JSON object.") var payload: String?
    @Option(help: "now, soon or bulk.") var lane: String?
    @Option(help: "Nothing is sent after this many seconds.") var ttlSeconds: Int?
    @Option(help: "The same key again sends nothing new and gives the same answer.") var idempotencyKey: String?

    func validate() throws {
        guard (user == nil) != (installation == nil) else { throw ValidationError("give one of --user and --installation") }
        guard (payload == nil) != (title == nil && body == nil) else { throw ValidationError("give --title/--body or --payload") }
    }

    func run() async throws {
        let content = try content()
        let accepted = try await connection.withClient { client in
            try await client.post("/v1/apps/\(app.percentEncoded)/notifications", idempotencyKey: idempotencyKey) { request in
                request.object("to") { to in
                    to.field("user", user)
                    to.field("installation", installation)
                }
                request.field("payload", raw: content)
                request.field("lane", lane)
                request.field("ttl_seconds", ttlSeconds)
            }
        }
        print(
            "\(accepted["id"]?.stringValue ?? "?")  \(accepted["state"]?.stringValue ?? "?")  \(accepted["deliveries"]?.integerValue ?? 0) deliveries"
        )
    }

    private func content() throws -> [UInt8] {
        if let payload {
            guard let data = FileManager.default.contents(atPath: payload) else {
                throw CommandFailure("the file \(payload) cannot be read")
            }
            return [UInt8](data)
        }
        var writer = JSONWriter()
        writer.object { payload in
            payload.object("aps") { aps in
                aps.object("alert") { alert in
                    alert.field("title", title)
                    alert.field("body", body)
                }
            }
        }
        return writer.bytes
    }
}
