import ArgumentParser
import PushAPI
import StrictJSON

struct NotificationsCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "notifications", abstract: "Find notifications, and what became of each copy.",
        discussion: "All need a key with the scope read.", subcommands: [List.self, Show.self, Deliveries.self, Why.self])
}

/// The common options of these commands.
struct NotificationOptions: ParsableArguments {
    @Argument(help: "The app.") var app: String

    var path: String { "/v1/apps/\(app.percentEncoded)/notifications" }
}

extension NotificationsCommand {
    struct List: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "List notifications, newest first.",
            discussion: """
                Filters narrow the list together. A user's are those that name the user, and those with a receipt of a delivery to a \
                device that the user was signed in on.
                """)
        @OptionGroup var connection: ConnectionOptions
        @OptionGroup var output: OutputOptions
        @OptionGroup var options: NotificationOptions
        @Option(help: "accepted, scheduled, expanding, sending, completed, cancelled, expired or no_targets.") var state: String?
        @Option(help: "Only this user's.") var user: String?
        @Option(help: "Only accepted at this moment or later (RFC 3339).") var since: String?
        @Option(help: "Only accepted before this moment (RFC 3339).") var until: String?
        @Option(help: "How many to show at most.") var limit = 100

        func validate() throws {
            guard limit > 0 else { throw ValidationError("--limit must be at least 1") }
        }

        func run() async throws {
            let filters = [("state", state), ("user", user), ("since", since), ("until", until)]
            let found = try await connection.withClient { client in
                try await client.pages(options.path, filters, of: "notifications", limit: limit)
            }
            try output.show(found, as: "notifications", notificationTable(found.rows))
        }
    }

    struct Show: AsyncParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Show a notification's state, and how its deliveries ended.")
        @OptionGroup var connection: ConnectionOptions
        @OptionGroup var output: OutputOptions
        @OptionGroup var options: NotificationOptions
        @Argument(help: "The notification's id.") var id: String

        func run() async throws {
            let status = try await connection.withClient { client in try await client.get("\(options.path)/\(id.percentEncoded)") }
            try output.show(status, "\(notificationFacts(status))\n\n\(outcomeTable(status))")
        }
    }

    struct Deliveries: AsyncParsableCommand {
        static let configuration = CommandConfiguration(abstract: "List what became of a notification, device by device.")
        @OptionGroup var connection: ConnectionOptions
        @OptionGroup var output: OutputOptions
        @OptionGroup var options: NotificationOptions
        @Argument(help: "The notification's id.") var id: String
        @Option(help: "pending, or an outcome: accepted, token_gone, rejected, expired, …") var state: String?
        @Option(help: "Only with this reason, as Unregistered.") var reason: String?
        @Option(help: "Only to this installation.") var installation: String?
        @Option(help: "How many to show at most.") var limit = 100

        func validate() throws {
            guard limit > 0 else { throw ValidationError("--limit must be at least 1") }
        }

        func run() async throws {
            let filters = [("state", state), ("reason", reason), ("installation", installation)]
            let found = try await connection.withClient { client in
                try await client.pages("\(options.path)/\(id.percentEncoded)/deliveries", filters, of: "deliveries", limit: limit)
            }
            let receipts = found.first["receipts"]?.stringValue ?? "?"
            let note = "\nOf this notification only what failed, or was tried more than once, has a receipt."
            try output.show(
                found, as: "deliveries", more: { $0.field("receipts", receipts) },
                "\(deliveryTable(found.rows))\(receipts == "failures" ? note : "")")
        }
    }

    struct Why: AsyncParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Say why a notification reached a user, or did not, step by step.")
        @OptionGroup var connection: ConnectionOptions
        @OptionGroup var output: OutputOptions
        @OptionGroup var options: NotificationOptions
        @Argument(help: "The notification's id.") var id: String
        @Option(help: "The user.") var user: String

        func run() async throws {
            let answer = try await connection.withClient { client in
                try await client.get("\(options.path)/\(id.percentEncoded)/why?user=\(user.percentEncoded)")
            }
            let isCutShort = answer["is_cut_short"]?.boolValue == true
            let note = isCutShort ? "\nNot everything was looked at: there are too many devices or deliveries." : ""
            try output.show(answer, "\(answer["explanation"]?.stringValue ?? "?")\n\n\(stepTable(answer))\(note)")
        }
    }
}

/// One row per notification.
func notificationTable(_ notifications: [JSONValue]) -> Table {
    var table = Table("NOTIFICATION", "ACCEPTED", "STATE", "TO", "LANE", "TYPE", "DELIVERIES", "PENDING")
    for notification in notifications {
        let counts = notification["counts"]
        table.add(
            notification.shown("id"), notification.shown("accepted_at"), notification.shown("state"), addressText(notification["to"]),
            notification.shown("lane"), notification.shown("push_type"), number(counts?["total"]), number(counts?["pending"]))
    }
    return table
}

/// The facts about one notification, a line each.
func notificationFacts(_ status: JSONValue) -> String {
    let names = ["accepted_at", "not_before", "local_time", "expires_at", "completed_at", "cancelled_at", "cancel_reason"]
    let facts = names.compactMap { name in status[name]?.stringValue.map { "\(name) \($0)" } }
    let head = "\(status.shown("id")), \(status.shown("state")), to \(addressText(status["to"]))"
    return ([head, "push type \(status.shown("push_type")), lane \(status.shown("lane")), receipts \(status.shown("receipts"))"] + facts)
        .joined(separator: "\n")
}

/// The ends of its deliveries, by APNs' answers.
func outcomeTable(_ status: JSONValue) -> Table {
    var table = Table("OUTCOME", "STATUS", "REASON", "DELIVERIES")
    if let pending = status["counts"]?["pending"]?.integerValue, pending > 0 { table.add("pending", "-", "-", "\(pending)") }
    for reason in status["reasons"]?.arrayValue ?? [] {
        table.add(reason.shown("class"), number(reason["status"]), reason.shown("reason"), number(reason["count"]))
    }
    return table
}

func stepTable(_ answer: JSONValue) -> Table {
    var table = Table("WHEN", "WHAT", "INSTALLATION", "WHY")
    for step in answer["steps"]?.arrayValue ?? [] {
        table.add(
            step["at"]?.stringValue ?? "not recorded", step.shown("what"), step["detail"]?["installation"]?.stringValue ?? "-",
            step.shown("why") + (step["detail"]?["hold"]?.stringValue.map { " Hold \($0)." } ?? ""))
    }
    return table
}

/// The addressees of a notification, in few words.
private func addressText(_ address: JSONValue?) -> String {
    guard let address, let kind = address["kind"]?.stringValue else { return "-" }
    let names = ["user", "installation", "tags", "channel"]
    let named = names.lazy.compactMap { address[$0]?.stringValue }.first
    if let named { return "\(kind) \(named)" + (address["activity"]?.stringValue.map { " activity \($0)" } ?? "") }
    return address["count"]?.integerValue.map { "\($0) \(kind)" } ?? kind
}

private func number(_ value: JSONValue?) -> String { value?.integerValue.map(String.init) ?? "-" }

extension JSONValue {
    /// A text field for a table's cell.
    fileprivate func shown(_ name: String) -> String { self[name]?.stringValue ?? "-" }
}
