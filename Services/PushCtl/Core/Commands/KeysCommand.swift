import ArgumentParser
import PushAPI
import PushModel
import StrictJSON

struct KeysCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "keys", abstract: "API keys.",
        subcommands: [Generate.self, Create.self, List.self, Rotate.self, Revoke.self])

    struct Generate: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Make a key without asking any server, and print it.",
            discussion:
                """
                Put it in a file that only the token service can read and name that file in BOOTSTRAP_KEY_FILE: it is then an \
                administrator's key.
                """
        )

        @OptionGroup var output: OutputOptions

        func run() throws {
            let key = APIKeyText.generate().text
            try output.show({ $0.field("key", key) }, key)
        }
    }

    struct Create: AsyncParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Make a key. It is shown once; only its hash is stored.")
        @OptionGroup var connection: ConnectionOptions
        @OptionGroup var output: OutputOptions
        @Option(help: "The app it is bound to; without it, the key is good for every app.") var app: String?
        @Option(help: "What people call it.") var name: String
        @Option(help: "What it may do: a comma-separated list of devices, send, read, admin.") var scopes: String
        @Option(help: "Requests per second of each instance; without it, the service's own limit holds.") var rate: Int?
        @Option(help: "When it ends, an RFC 3339 date and time; without it, never.") var expiresAt: String?
        @Flag(help: "Print the key alone.") var quiet = false

        func run() async throws {
            let scopes = scopes.split(separator: ",").map(String.init)
            let created = try await connection.withClient { client in
                try await client.post("/v1/admin/keys") { body in
                    body.field("app", app)
                    body.field("name", name)
                    body.field("scopes", scopes)
                    body.field("requests_per_second", rate)
                    body.field("expires_at", expiresAt)
                }
            }
            guard let key = created["key"]?.stringValue else { throw CommandFailure("the answer holds no key") }
            try output.show(created, quiet ? key : "\(key)\nThis is the only time it is shown. Id: \(created["id"]?.stringValue ?? "?")")
        }
    }

    struct List: AsyncParsableCommand {
        static let configuration = CommandConfiguration(abstract: "List the keys.")
        @OptionGroup var connection: ConnectionOptions
        @OptionGroup var output: OutputOptions

        func run() async throws {
            let answer = try await connection.withClient { client in try await client.get("/v1/admin/keys") }
            try output.show(answer, keyTable(answer["keys"]?.arrayValue ?? []))
        }
    }

    struct Revoke: AsyncParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Revoke a key, at once.")
        @OptionGroup var connection: ConnectionOptions
        @OptionGroup var output: OutputOptions
        @Argument(help: "The key's id, as 'pushctl keys list' shows it.") var id: String

        func run() async throws {
            _ = try await connection.withClient { client in try await client.delete("/v1/admin/keys/\(id.percentEncoded)") }
            try output.show({ $0.field("revoked", id) }, "revoked")
        }
    }
}

/// One row per key.
func keyTable(_ keys: [JSONValue]) -> Table {
    var table = Table("ID", "NAME", "APP", "SCOPES", "RATE", "STATE", "ENDS", "LAST USED", "REPLACES")
    for key in keys {
        let scopes = (key["scopes"]?.arrayValue ?? []).compactMap(\.stringValue).joined(separator: ",")
        table.add(
            key["id"]?.stringValue ?? "?", key["name"]?.stringValue ?? "", key["app"]?.stringValue ?? "every app", scopes,
            key["requests_per_second"]?.integerValue.map { "\($0)/s" } ?? "default", key["state"]?.stringValue ?? "?",
            key["revoked_at"]?.stringValue ?? key["expires_at"]?.stringValue ?? "never", key["last_used_at"]?.stringValue ?? "never",
            key["rotated_from"]?.stringValue ?? "-")
    }
    return table
}

extension KeysCommand {
    struct Rotate: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Make a key that replaces another one; both live for a while. It is shown once.",
            discussion: """
                The new key may do what the old one may. Give it to the old key's clients, see in 'pushctl keys list' that the old one \
                is used no more, and let it end by itself or revoke it.
                """)
        @OptionGroup var connection: ConnectionOptions
        @OptionGroup var output: OutputOptions
        @Argument(help: "The old key's id, as 'pushctl keys list' shows it.") var id: String
        @Option(help: "How many seconds the old key lives on, at most: 0 to 2592000 (30 days).") var overlapSeconds = 86_400
        @Option(help: "When the new key ends, an RFC 3339 date and time; without it, never.") var expiresAt: String?
        @Flag(help: "Print the new key alone.") var quiet = false

        func validate() throws {
            guard (0...2_592_000).contains(overlapSeconds) else {
                throw ValidationError("--overlap-seconds must be from 0 to 2592000 (30 days)")
            }
        }

        func run() async throws {
            let rotated = try await connection.withClient { client in
                try await client.post("/v1/admin/keys/\(id.percentEncoded)/rotate") { body in
                    body.field("overlap_seconds", overlapSeconds)
                    body.field("expires_at", expiresAt)
                }
            }
            guard let key = rotated["key"]?.stringValue else { throw CommandFailure("the answer holds no key") }
            let end = rotated["previous"]?["expires_at"]?.stringValue ?? "?"
            try output.show(
                rotated,
                quiet
                    ? key
                    : "\(key)\nThis is the only time it is shown. Id: \(rotated["id"]?.stringValue ?? "?")\nThe old key \(id) ends \(end)")
        }
    }
}
