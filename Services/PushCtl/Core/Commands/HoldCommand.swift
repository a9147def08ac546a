import ArgumentParser
import PushAPI
import PushModel
import StrictJSON

struct HoldCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "hold", abstract: "Stop an app, a lane or a notification for a while, without losing anything.",
        discussion: """
            What is held waits until the hold is lifted or ends, and expires when it would have. To stop a notification for good, see \
            'pushctl cancel'.
            """,
        subcommands: [Set.self, List.self, Lift.self])

    struct Set: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Set a hold: on a whole app, or one of its lanes or notifications.",
            discussion:
                "In force on every dispatcher within a second. The key needs the scope admin; with --all-apps it must be bound to no app.")
        @OptionGroup var connection: ConnectionOptions
        @OptionGroup var output: OutputOptions
        @Argument(help: "The app.") var app: String?
        @Flag(help: "Hold every app, or --lane of every app.") var allApps = false
        @Option(help: "This lane alone: now, soon or bulk.") var lane: String?
        @Option(help: "This notification alone.") var notification: String?
        @Option(help: "Why, for other operators.") var reason: String
        @Option(name: .customLong("for"), help: "How long, as 90s, 30m, 2h or 7d; without it and --until, until it is lifted.")
        var duration: String?
        @Option(help: "Until when, an RFC 3339 date and time.") var until: String?

        func validate() throws {
            guard (app == nil) == allApps else { throw ValidationError("name an app, or give --all-apps") }
            guard lane == nil || notification == nil else { throw ValidationError("only one of --lane and --notification") }
            guard !allApps || notification == nil else { throw ValidationError("--notification needs its app") }
            if let lane, Lane(rawValue: lane) == nil { throw ValidationError("\(lane) is no lane: now, soon or bulk") }
            if let notification, PushID(notification) == nil { throw ValidationError("\(notification) is not a notification's id, a UUID") }
            guard duration == nil || until == nil else { throw ValidationError("only one of --for and --until") }
            if let duration, holdSeconds(duration) == nil { throw ValidationError("\(duration) is no time: write 90s, 30m, 2h or 7d") }
        }

        func run() async throws {
            let hold = try await connection.withClient { client in
                try await client.post(holdPath(app)) { body in
                    if lane == nil, notification == nil { body.field("all", true) }
                    body.field("lane", lane)
                    body.field("notification", notification)
                    body.field("reason", reason)
                    body.field("ttl_seconds", duration.flatMap(holdSeconds))
                    body.field("expires_at", until)
                }
            }
            let isPending = hold["fence"]?.stringValue == "pending"
            let pending = """

                The broker has not confirmed it yet: it is not in force everywhere. The service goes on trying; see 'pushctl hold list'.
                """
            try output.show(hold, "\(holdTable([hold]))\(isPending ? pending : "")")
        }
    }

    struct List: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "List the holds that are in force, the newest first.",
            discussion: "Without an app: every hold there is, which needs a key with the scope admin that is bound to no app.")
        @OptionGroup var connection: ConnectionOptions
        @OptionGroup var output: OutputOptions
        @Argument(help: "The app.") var app: String?
        @Flag(help: "Also those that were lifted or have ended, with who lifted them.") var all = false
        @Option(help: "Show at most so many.") var limit = 100

        func validate() throws {
            guard limit > 0 else { throw ValidationError("--limit must be positive") }
        }

        func run() async throws {
            let list = try await connection.withClient { client in
                try await client.pages(holdPath(app), [("state", all ? nil : "live")], of: "holds", limit: limit)
            }
            let none = all ? "there never was a hold" : "nothing is held"
            try output.show(list, as: "holds", list.rows.isEmpty ? none : "\(holdTable(list.rows))")
        }
    }

    struct Lift: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Lift a hold: what waits is sent.",
            discussion:
                """
                What waits in the broker comes within seconds where it is little, and within ten minutes where it is much. Another hold on \
                the same goes on.
                """
        )
        @OptionGroup var connection: ConnectionOptions
        @OptionGroup var output: OutputOptions
        @Argument(help: "The app and the hold's id; with --all-apps the id alone.") var names: [String]
        @Flag(help: "The hold is over every app.") var allApps = false

        func validate() throws {
            guard names.count == (allApps ? 1 : 2) else { throw ValidationError("name the app and the hold, or --all-apps and the hold") }
            guard PushID(names[names.count - 1]) != nil else {
                throw ValidationError("\(names[names.count - 1]) is not a hold's id, a UUID")
            }
        }

        func run() async throws {
            let path = holdPath(allApps ? nil : names[0]) + "/" + names[names.count - 1].percentEncoded
            let hold = try await connection.withClient { client in try await client.delete(path) }
            let more =
                switch (hold["state"]?.stringValue, hold["fence"]?.stringValue) {
                case ("expired", _): "\nIt had ended by itself."
                case (_, "pending"): "\nThe broker has not confirmed it yet; the service goes on trying."
                default: ""
                }
            try output.show(hold, "\(holdTable([hold]))\(more)")
        }
    }
}

private func holdPath(_ app: String?) -> String { app.map { "/v1/apps/\($0.percentEncoded)/holds" } ?? "/v1/admin/holds" }

/// `90s`, `30m`, `2h`, `7d`.
func holdSeconds(_ text: String) -> Int64? {
    let units: [Character: Int64] = ["s": 1, "m": 60, "h": 3600, "d": 86_400]
    guard let unit = text.last.flatMap({ units[$0] }), text.dropLast().allSatisfy({ $0.isASCII && $0.isNumber }),
        let number = Int64(text.dropLast()), number > 0
    else { return nil }
    let (seconds, isTooMuch) = number.multipliedReportingOverflow(by: unit)
    return isTooMuch ? nil : seconds
}

/// One row per hold.
func holdTable(_ holds: [JSONValue]) -> Table {
    var table = Table("HOLD", "APP", "WHAT", "STATE", "SET", "BY", "ENDS", "REASON")
    for hold in holds {
        let state = hold["state"]?.stringValue ?? "?"
        let isPending = hold["fence"]?.stringValue == "pending"
        table.add(
            hold["id"]?.stringValue ?? "?", hold["app"]?.stringValue ?? "(all)",
            hold["notification"]?.stringValue ?? hold["lane"]?.stringValue.map { "lane \($0)" } ?? "everything",
            isPending ? "\(state), unconfirmed" : hold["lifted_by"]?.stringValue.map { "lifted by \($0)" } ?? state,
            hold["set_at"]?.stringValue ?? "?", hold["set_by"]?.stringValue ?? "?",
            hold["lifted_at"]?.stringValue ?? hold["expires_at"]?.stringValue ?? "when lifted", hold["reason"]?.stringValue ?? "?")
    }
    return table
}
