import ArgumentParser
import PushAPI
import StrictJSON

extension InstallationsCommand {
    struct History: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Say why an installation gets pushes or not, and what happened to it.")
        @OptionGroup var connection: ConnectionOptions
        @OptionGroup var output: OutputOptions
        @OptionGroup var options: InstallationOptions
        @Argument(help: "The installation's id.") var id: String
        @Option(help: "How many entries to show at most.") var limit = 100
        @Flag(help: "Begin with the oldest entry.") var oldestFirst = false

        func validate() throws {
            guard limit > 0 else { throw ValidationError("--limit must be at least 1") }
        }

        func run() async throws {
            let path = "/v1/apps/\(options.app.percentEncoded)/installations/\(id.percentEncoded)/history"
            let order = [("order", oldestFirst ? "asc" : "desc" as String?)]
            let found = try await connection.withClient { client in try await client.pages(path, order, of: "entries", limit: limit) }
            let explanation = found.first["explanation"]?.stringValue ?? "?"
            try output.show(
                found, as: "entries",
                more: { document in
                    document.field("reachable", found.first["reachable"]?.boolValue ?? false)
                    document.field("explanation", explanation)
                }, "\(explanation)\n\n\(historyTable(found.rows))")
        }
    }
}
