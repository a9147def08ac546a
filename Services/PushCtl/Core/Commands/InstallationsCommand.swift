import ArgumentParser
import PushAPI
import StrictJSON

struct InstallationsCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "installations", abstract: "What the registry knows of devices, and what happened to them.",
        discussion: "Tokens are shown by their last six digits; --full-tokens shows all of them to a key with the scope devices.",
        subcommands: [List.self, Show.self, Tag.self, History.self, Search.self])
}

/// The common options of these commands.
struct InstallationOptions: ParsableArguments {
    @Argument(help: "The app.") var app: String
}

extension InstallationsCommand {
    struct List: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "List installations: an app's, or one user's.",
            discussion: "Filters narrow the list together. One that few installations pass can take long on a large app.")
        @OptionGroup var connection: ConnectionOptions
        @OptionGroup var output: OutputOptions
        @OptionGroup var options: InstallationOptions
        @Option(help: "Only this user's.") var user: String?
        @Option(help: "signed_in, signed_out, throttled, stale, or unreachable (no active token).") var state: String?
        @Option(help: "not_determined, provisional, denied, authorized, ephemeral, or unknown (none reported).") var permission: String?
        @Option(help: "Only with this tag of the backend; app:beta: with the app's tag beta.") var tag: String?
        @Option(help: "Only registered at this moment or later (RFC 3339).") var seenAfter: String?
        @Option(help: "Only registered before this moment (RFC 3339).") var seenBefore: String?
        @Option(help: "How many to show at most.") var limit = 100
        @Flag(help: "Show whole tokens in the JSON.") var fullTokens = false

        func validate() throws {
            guard limit > 0 else { throw ValidationError("--limit must be at least 1") }
            guard !fullTokens || output.isJSON else { throw ValidationError("--full-tokens needs -o json") }
        }

        func run() async throws {
            let filters = [
                ("state", state), ("permission", permission), ("tag", tag), ("seen_after", seenAfter), ("seen_before", seenBefore),
                ("tokens", fullTokens ? "full" : nil),
            ]
            let path = "/v1/apps/\(options.app.percentEncoded)\(user.map { "/users/\($0.percentEncoded)" } ?? "")/installations"
            let found = try await connection.withClient { client in
                try await client.pages(path, filters, of: "installations", limit: limit)
            }
            try output.show(found, as: "installations", installationTable(found.rows))
        }
    }

    struct Tag: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Give an installation these tags of the backend, in place of those that it had.",
            discussion: "Without a tag it has none then. The app's own tags stay as they are.")
        @OptionGroup var connection: ConnectionOptions
        @OptionGroup var output: OutputOptions
        @OptionGroup var options: InstallationOptions
        @Argument(help: "The installation's id.") var id: String
        @Argument(help: "All its tags.") var tags: [String] = []

        func run() async throws {
            let record = try await connection.withClient { client in
                try await client.put("/v1/apps/\(options.app.percentEncoded)/installations/\(id.percentEncoded)/tags") { body in
                    body.field("tags", tags)
                }
            }
            try output.show(record, installationFacts(record))
        }
    }

    struct Show: AsyncParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Show one installation with its tokens.")
        @OptionGroup var connection: ConnectionOptions
        @OptionGroup var output: OutputOptions
        @OptionGroup var options: InstallationOptions
        @Argument(help: "The installation's id.") var id: String
        @Flag(help: "Show whole tokens.") var fullTokens = false

        func run() async throws {
            let record = try await connection.withClient { client in
                try await client.get(
                    "/v1/apps/\(options.app.percentEncoded)/installations/\(id.percentEncoded)\(fullTokens ? "?tokens=full" : "")")
            }
            try output.show(record, "\(installationFacts(record))\n\n\(tokenTable(record, isFull: fullTokens))")
        }
    }
}
