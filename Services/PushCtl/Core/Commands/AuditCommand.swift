import ArgumentParser
import PushAPI
import StrictJSON

struct AuditCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "audit", abstract: "Who used an administrator's rights, and who read tokens or a person's data in full.",
        discussion: """
            The newest first; filters narrow the list together. The key needs the scope admin and must be bound to no app. No entry names \
            a user: the object of an action on a user is the first 16 digits of the SHA-256 of APP/USER.
            """)
    @OptionGroup var connection: ConnectionOptions
    @OptionGroup var output: OutputOptions
    @Option(help: "Only of this app.") var app: String?
    @Option(help: "Only by the API key of this id.") var key: String?
    @Option(help: "Only this action, for example key.created or tokens.read.") var action: String?
    @Option(help: "Only at this moment or later (RFC 3339).") var since: String?
    @Option(help: "Show at most so many.") var limit = 100

    func validate() throws {
        guard limit > 0 else { throw ValidationError("--limit must be positive") }
    }

    func run() async throws {
        let filters = [("app", app), ("key", key), ("action", action), ("since", since)]
        let trail = try await connection.withClient { client in
            try await client.pages("/v1/admin/audit", filters, of: "entries", limit: limit)
        }
        try output.show(trail, as: "entries", auditTable(trail.rows))
    }
}

/// One row per entry.
func auditTable(_ entries: [JSONValue]) -> Table {
    var table = Table("TIME", "ACTION", "APP", "OBJECT", "NUMBER", "KEY", "NAME OF THE KEY")
    for entry in entries {
        table.add(
            entry["at"]?.stringValue ?? "?", entry["action"]?.stringValue ?? "?", entry["app"]?.stringValue ?? "-",
            entry["object"]?.stringValue ?? "-", entry["count"]?.integerValue.map { "\($0)" } ?? "-",
            entry["key"]?.stringValue ?? "(service)", entry["key_name"]?.stringValue ?? "-")
    }
    return table
}
