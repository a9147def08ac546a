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

extension InstallationsCommand {
    struct Search: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Find who holds or held a token.",
            discussion: """
                The token is read from --token-file, or from standard input: arguments can be seen by every user of this machine and stay \
                in the shell's history.
                """)
        @OptionGroup var connection: ConnectionOptions
        @OptionGroup var output: OutputOptions
        @OptionGroup var options: InstallationOptions
        @Option(help: "A file that holds the token in hex; without it, standard input is read.") var tokenFile: String?
        @Option(help: "production or sandbox; without it, both.") var environment: String?
        @Argument(help: .hidden) var misplaced: [String] = []

        func validate() throws {
            // A token in the app's place would go into a URL, and from there into logs.
            let isToken = options.app.count >= 32 && options.app.allSatisfy(\.isHexDigit)
            guard misplaced.isEmpty, !isToken else {
                throw ValidationError("give the token in --token-file or on standard input: arguments can be seen by others")
            }
        }

        func run() async throws {
            let token = try token()
            let answer = try await connection.withClient { client in
                try await client.post("/v1/apps/\(options.app.percentEncoded)/tokens/search") { body in
                    body.field("token", token)
                    body.field("environment", environment)
                }
            }
            try output.show(answer, Self.text(answer))
        }

        private static func text(_ answer: JSONValue) -> String {
            let holders = answer["installations"]?.arrayValue ?? []
            let former = answer["former_holders"]?.arrayValue ?? []
            guard !holders.isEmpty || !former.isEmpty else { return "No installation is known to hold or have held this token." }
            let now = holders.isEmpty ? "No installation holds it now." : "\(installationTable(holders))"
            return former.isEmpty ? now : "\(now)\n\nFormer holders\n\(formerHolderTable(former))"
        }

        private func token() throws -> String {
            let text: String?
            if let tokenFile {
                text = String(decoding: try CommandInput.read(tokenFile), as: UTF8.self)
            } else {
                text = readLine()
            }
            let token = (text ?? "").filter { !$0.isWhitespace }
            guard !token.isEmpty else { throw CommandFailure("no token: give --token-file, or write it to standard input") }
            return token
        }
    }
}

/// One row per installation.
func installationTable(_ installations: [JSONValue]) -> Table {
    var table = Table("INSTALLATION", "USER", "ACTIVE TOKENS", "LAST REGISTERED", "APP", "SYSTEM", "TAGS")
    for installation in installations {
        let active = (installation["tokens"]?.arrayValue ?? []).filter { $0["state"]?.stringValue == "active" }
        table.add(
            installation.shown("id"), installation.shown("user"),
            active.isEmpty ? "none" : active.map { "\($0.shown("purpose"))/\($0.shown("environment"))" }.joined(separator: ","),
            installation.shown("registered_at"), installation.shown("app_version"), installation.shown("os_version"),
            tagWords(installation))
    }
    return table
}

/// The facts about one installation, a line each.
func installationFacts(_ record: JSONValue) -> String {
    let user = record["user"]?.stringValue ?? "no user"
    let names = [
        "registered_at", "created_at", "throttled_until", "locale", "time_zone", "app_version", "os_version", "device_model", "permission",
    ]
    let facts = names.compactMap { name in record[name]?.stringValue.map { "\(name) \($0)" } }
    let tags = tagWords(record)
    let epoch = record["owner_epoch"]?.integerValue ?? 0
    let head = "\(record.shown("id")), signed in: \(user), owner epoch \(epoch), fence \(record.shown("fence"))"
    return ([head] + facts + (tags.isEmpty ? [] : ["tags \(tags)"])).joined(separator: "\n")
}

/// The backend's tags and the app's, as a tag expression names them.
private func tagWords(_ record: JSONValue) -> String {
    func texts(_ name: String) -> [String] { (record[name]?.arrayValue ?? []).compactMap(\.stringValue) }
    return (texts("tags") + texts("app_tags").map { "app:" + $0 }).joined(separator: ",")
}

func tokenTable(_ record: JSONValue, isFull: Bool) -> Table {
    var table = Table("TOKEN", "PURPOSE", "ENVIRONMENT", "STATE", "REGISTERED", "RETIRED", "WHY")
    for token in record["tokens"]?.arrayValue ?? [] {
        table.add(
            token.shown(isFull ? "token" : "hint"), token.shown("purpose"), token.shown("environment"), token.shown("state"),
            token.shown("registered_at"), token.shown("retired_at"), token.shown("retired_reason"))
    }
    return table
}

func historyTable(_ entries: [JSONValue]) -> Table {
    var table = Table("WHEN", "EVENT", "USER", "TOKEN", "OTHER INSTALLATION", "REASON", "APNS SINCE")
    for entry in entries {
        let token = entry["token"].map { "\($0.shown("hint")) \($0.shown("purpose"))/\($0.shown("environment"))" }
        let reason = [entry["status"]?.integerValue.map(String.init), entry["reason"]?.stringValue].compactMap { $0 }
        table.add(
            entry.shown("at"), entry.shown("event"), entry.shown("user"), token ?? "-", entry.shown("other_installation"),
            reason.isEmpty ? "-" : reason.joined(separator: " "), entry.shown("apns_timestamp"))
    }
    return table
}

func formerHolderTable(_ holders: [JSONValue]) -> Table {
    var table = Table("INSTALLATION", "UNTIL", "WHY", "MOVED TO", "PURPOSE", "ENVIRONMENT")
    for holder in holders {
        table.add(
            holder.shown("id"), holder.shown("until"), holder.shown("reason"), holder.shown("moved_to"), holder.shown("purpose"),
            holder.shown("environment"))
    }
    return table
}

extension JSONValue {
    /// A text field for a table's cell.
    fileprivate func shown(_ name: String) -> String { self[name]?.stringValue ?? "-" }

    /// The value as one line of JSON.
    var jsonText: String {
        var writer = JSONWriter()
        writer.value(self)
        return String(decoding: writer.bytes, as: UTF8.self)
    }
}
