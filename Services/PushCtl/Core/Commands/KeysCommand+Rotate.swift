import ArgumentParser
import PushAPI
import StrictJSON

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
