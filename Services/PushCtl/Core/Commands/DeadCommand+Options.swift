import ArgumentParser
import PushAPI
import PushModel
import StrictJSON

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

    /// For a query that has a parameter already.
    var query: String { pairs.map { "&\($0)=\($1.percentEncoded)" }.joined() }

    func write(to body: inout JSONWriter) {
        for (name, value) in pairs { body.field(name, value) }
    }
}

/// The same for a command that changes something: a filter that names nothing does not mean everything.
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
        let order = ["sent", "fenced", "token_gone", "cancelled", "settled", "expired", "undecided", "forgotten"]
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
