import ArgumentParser
import PushAPI
import PushModel
import StrictJSON

struct DeadCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "dead", abstract: "Dead letters: jobs that were given up, and messages that no service could read.",
        discussion:
            """
            They wait in the broker, in their order, until they are replayed or dropped. For a key of an administrator that is bound to no \
            app.
            """,
        subcommands: [List.self, Show.self, Replay.self, Drop.self])

    struct List: AsyncParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Count them by reason and app, and list the oldest.")
        @OptionGroup var connection: ConnectionOptions
        @OptionGroup var output: OutputOptions
        @OptionGroup var filter: DeadLetterOptions
        @Option(help: "Show at most so many.") var limit = 20

        func validate() throws {
            guard (1...1000).contains(limit) else { throw ValidationError("--limit must be from 1 to 1000") }
        }

        func run() async throws {
            let page = try await connection.withClient { client in
                try await client.get("/v1/admin/dead-letters?limit=\(limit)\(filter.query)")
            }
            let (counts, letters) = (page["counts"]?.arrayValue ?? [], page["letters"]?.arrayValue ?? [])
            try output.show(page, "\(deadLetterCounts(counts))\n\n\(deadLetterTable(letters))\n\(deadLetterSummary(page))")
        }
    }

    struct Show: AsyncParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Show one with its job, without payload and whole tokens.")
        @OptionGroup var connection: ConnectionOptions
        @OptionGroup var output: OutputOptions
        @Argument(help: "The letter's id.") var id: String

        func validate() throws {
            guard PushID(id) != nil else { throw ValidationError("\(id) is not a letter's id, a UUID") }
        }

        func run() async throws {
            let letter = try await connection.withClient { client in try await client.get("/v1/admin/dead-letters/\(id)") }
            try output.show(letter, deadLetterLines(letter).joined(separator: "\n"))
        }
    }

    struct Replay: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Send deliveries that were given up again, to the devices that may still get them.",
            discussion: """
                Each delivery is resolved anew: only where the same user is still signed in, to the token that the installation has now, \
                and under the same id. May be broken off and repeated.
                """)
        @OptionGroup var connection: ConnectionOptions
        @OptionGroup var output: OutputOptions
        @OptionGroup var choice: DeadLetterChoice
        @Option(help: "Give notifications that are past their expiry so many seconds more; without it they are left alone.")
        var extend: Int64?

        func validate() throws {
            try choice.validateChoice()
            if let extend, !(1...259_200).contains(extend) { throw ValidationError("--extend must be from 1 to 259200 seconds") }
        }

        func run() async throws {
            try await connection.withClient { client in
                guard try await choice.isConfirmed("Replay", client) else { throw CommandFailure("nothing was replayed") }
                var sum = DeadLetterReplaySum()
                repeat {
                    let before = sum.letters
                    try sum.add(
                        await client.post("/v1/admin/dead-letters/replay") { body in
                            choice.write(to: &body)
                            if let extend { body.field("extend_seconds", extend) }
                        })
                    // Else it would read the letters that stay again and again.
                    guard sum.letters > before else { break }
                } while sum.remaining > 0
                try output.show(sum.write(to:), sum.description)
            }
        }
    }

    struct Drop: AsyncParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Drop them for good.")
        @OptionGroup var connection: ConnectionOptions
        @OptionGroup var output: OutputOptions
        @OptionGroup var choice: DeadLetterChoice

        func validate() throws { try choice.validateChoice() }

        func run() async throws {
            try await connection.withClient { client in
                guard try await choice.isConfirmed("Drop", client) else { throw CommandFailure("nothing was dropped") }
                var letters: Int64 = 0
                var remaining: Int64 = 0
                repeat {
                    let answer = try await client.post("/v1/admin/dead-letters/drop") { body in choice.write(to: &body) }
                    guard let dropped = answer["letters"]?.integerValue, let left = answer["remaining"]?.integerValue else {
                        throw CommandFailure("the answer does not say what was dropped")
                    }
                    letters += dropped
                    remaining = dropped > 0 ? left : 0
                } while remaining > 0
                try output.show({ $0.field("letters", letters) }, "\(counted(letters, "letter", "letters")) dropped")
            }
        }
    }
}

/// Which dead letters are meant.
struct DeadLetterOptions: ParsableArguments {
    @Option(help: "Only of this app.") var app: String?
    @Option(help: "Only those given up for this reason, as `list` shows it.") var reason: String?
    @Option(help: "Only of this lane: now, soon or bulk.") var lane: String?
    @Option(help: "Only of this notification.") var notification: String?

    func validate() throws {
        if let lane, Lane(rawValue: lane) == nil { throw ValidationError("--lane must be one of now, soon, bulk") }
        if let notification, PushID(notification) == nil { throw ValidationError("\(notification) is not a notification's id, a UUID") }
    }

    private var pairs: [(String, String)] {
        [("app", app), ("reason", reason), ("lane", lane), ("notification", notification)].compactMap { name, value in
            value.map { (name, $0) }
        }
    }

    var isEmpty: Bool { pairs.isEmpty }

    /// The pairs as text behind a query that has a parameter already.
    var query: String { pairs.map { "&\($0)=\($1.percentEncoded)" }.joined() }

    func write(to body: inout JSONWriter) {
        for (name, value) in pairs { body.field(name, value) }
    }
}

/// Chooses letters for a command that changes something: a filter that names nothing does not mean everything.
struct DeadLetterChoice: ParsableArguments {
    @Argument(help: "The letters' ids.") var ids: [String] = []
    @OptionGroup var filter: DeadLetterOptions
    @Flag(help: "All there are.") var all = false
    @Flag(help: "Do not ask.") var yes = false

    func validateChoice() throws {
        for id in ids where PushID(id) == nil { throw ValidationError("\(id) is not a letter's id, a UUID") }
        guard ids.count <= 500 else { throw ValidationError("at most 500 ids") }
        let isNamed = !ids.isEmpty || !filter.isEmpty
        guard isNamed != all else { throw ValidationError("name ids or filters, or say --all") }
    }

    func write(to body: inout JSONWriter) {
        if !ids.isEmpty { body.field("ids", ids) }
        filter.write(to: &body)
        if all { body.field("all", true) }
    }

    func isConfirmed(_ verb: String, _ client: PushAPI) async throws -> Bool {
        if yes { return true }
        var what = counted(ids.count, "named letter", "named letters")
        if ids.isEmpty {
            let page = try await client.get("/v1/admin/dead-letters?limit=1\(filter.query)")
            what = counted(page["matched"]?.integerValue ?? 0, "letter", "letters")
        }
        StandardError.write("\(verb) \(what)? [y/N] ")
        return ["y", "yes"].contains(readLine()?.lowercased())
    }
}

/// The result of a replay, over all its calls.
struct DeadLetterReplaySum {
    private(set) var letters: Int64 = 0
    private(set) var kept: Int64 = 0
    private(set) var remaining: Int64 = 0
    private var unreadable: Int64 = 0
    private var deliveries: [String: Int64] = [:]

    /// Adds one answer of the service.
    mutating func add(_ answer: JSONValue) throws {
        guard let letters = answer["letters"]?.integerValue, let kept = answer["kept"]?.integerValue,
            let remaining = answer["remaining"]?.integerValue, let unreadable = answer["unreadable"]?.integerValue
        else { throw CommandFailure("the answer does not say what was replayed") }
        self.letters += letters
        // Every call counts the letters that stay anew.
        self.kept = kept
        self.unreadable = unreadable
        self.remaining = remaining
        for (disposition, count) in answer["deliveries"]?.objectValue ?? [] {
            deliveries[disposition, default: 0] += count.integerValue ?? 0
        }
    }

    func write(to document: inout JSONWriter) {
        document.field("letters", letters)
        document.field("kept", kept)
        document.field("unreadable", unreadable)
        document.field("remaining", remaining)
        document.object("deliveries") { object in
            for (disposition, count) in deliveries.sorted(by: { $0.key < $1.key }) { object.field(disposition, count) }
        }
    }

    var description: String {
        let order = ["sent", "fenced", "token_gone", "cancelled", "has_outcome", "expired", "undecided", "forgotten"]
        let parts = order.compactMap { disposition in
            deliveries[disposition].flatMap { $0 > 0 ? "\($0) \(disposition)" : nil }
        }
        var text =
            "\(counted(letters, "letter", "letters")) replayed; deliveries: " + (parts.isEmpty ? "none" : parts.joined(separator: ", "))
        if kept > 0 { text += "; \(counted(kept, "letter", "letters")) kept" + (unreadable > 0 ? " (\(unreadable) unreadable)" : "") }
        if remaining > 0 { text += "; \(remaining) not looked at" }
        if deliveries["expired"] ?? 0 > 0 { text += "\nThose that are past their expiry are replayed with --extend SECONDS." }
        return text
    }
}

/// One row per reason and app.
func deadLetterCounts(_ counts: [JSONValue]) -> Table {
    var table = Table("REASON", "APP", "LETTERS", "DELIVERIES")
    for count in counts {
        table.add(
            count["reason"]?.stringValue ?? "?", count["app"]?.stringValue ?? "-", "\(count["letters"]?.integerValue ?? 0)",
            "\(count["deliveries"]?.integerValue ?? 0)")
    }
    return table
}

/// One row per letter.
func deadLetterTable(_ letters: [JSONValue]) -> Table {
    var table = Table("ID", "AT", "REASON", "APP", "LANE", "NOTIFICATION", "ATTEMPTS", "DELIVERIES")
    for letter in letters {
        func text(_ name: String) -> String { letter[name]?.stringValue ?? letter[name]?.integerValue.map { "\($0)" } ?? "-" }
        table.add(
            text("id"), text("at"), text("reason"), text("app"), text("lane"), text("notification"), text("attempts"), text("deliveries"))
    }
    return table
}

func deadLetterSummary(_ page: JSONValue) -> String {
    let matched = page["matched"]?.integerValue ?? 0
    let shown = Int64(page["letters"]?.arrayValue?.count ?? 0)
    var text = (shown < matched ? "\(shown) of " : "") + counted(matched, "dead letter", "dead letters")
    if page["complete"]?.boolValue == false { text += " among the oldest \(page["seen"]?.integerValue ?? 0); there are more behind them" }
    return text
}

/// A letter, field by field, and its deliveries.
func deadLetterLines(_ letter: JSONValue) -> [String] {
    func text(_ value: JSONValue) -> String? {
        value.stringValue ?? value.integerValue.map { "\($0)" } ?? value.boolValue.map { "\($0)" }
    }
    var lines: [String] = []
    for (name, value) in letter.objectValue ?? [] { if let text = text(value) { lines.append("\(name): \(text)") } }
    for delivery in letter["job"]?["deliveries"]?.arrayValue ?? [] {
        lines.append(
            "  " + (delivery.objectValue ?? []).compactMap { name, value in text(value).map { "\(name)=\($0)" } }.joined(separator: " "))
    }
    return lines
}
