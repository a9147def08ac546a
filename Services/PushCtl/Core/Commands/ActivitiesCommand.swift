import ArgumentParser
import PushAPI
import StrictJSON

struct ActivitiesCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "activities", abstract: "See Live Activities, update them and end them.",
        discussion: """
            A start is a notification to a user: 'pushctl send --file'. List and show need a key with the scope read, update and end one \
            with the scope send.
            """, subcommands: [List.self, Show.self, Update.self, End.self])

    struct List: AsyncParsableCommand {
        static let configuration = CommandConfiguration(abstract: "List the Live Activities of the last seven days, by owner and id.")
        @OptionGroup var connection: ConnectionOptions
        @OptionGroup var output: OutputOptions
        @Argument(help: "The app.") var app: String
        @Option(help: "Only this user's.") var user: String?
        @Option(help: "starting, active, stale, ended or dismissed.") var state: String?
        @Option(help: "How many to show at most.") var limit = 100

        func validate() throws {
            guard limit > 0 else { throw ValidationError("--limit must be at least 1") }
        }

        func run() async throws {
            let found = try await connection.withClient { client in
                try await client.pages(
                    "/v1/apps/\(app.percentEncoded)/activities", [("user", user), ("state", state)], of: "activities", limit: limit)
            }
            try output.show(found, as: "activities", activityTable(found.rows))
        }
    }

    struct Show: AsyncParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Show one Live Activity.")
        @OptionGroup var connection: ConnectionOptions
        @OptionGroup var output: OutputOptions
        @OptionGroup var name: ActivityArguments

        func run() async throws {
            let activity = try await connection.withClient { client in
                try await client.get(
                    "/v1/apps/\(name.app.percentEncoded)/activities/\(name.id.percentEncoded)",
                    query: [("user", name.user), ("installation", name.installation)])
            }
            try output.show(activity, activityTable([activity]))
        }
    }

    struct Update: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Show another state on the lock screen.",
            discussion: "A newer update replaces one that still waits. Priority 10 counts against a budget of the system; 5 does not.")
        @OptionGroup var change: ActivityChangeOptions
        @Option(help: "Seconds from now after which the state is stale.") var staleSeconds: Int?
        @Option(help: "5 or 10.") var priority: Int?

        func run() async throws {
            try await change.send(event: "update", priority: priority) { content in
                if let staleSeconds { content.field("stale_date", moment(after: staleSeconds)) }
            }
        }
    }

    struct End: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "End a Live Activity.",
            discussion: "The lock screen shows the last state for up to four hours, or until it is dismissed.")
        @OptionGroup var change: ActivityChangeOptions
        @Option(help: "Seconds from now after which it leaves the lock screen; 0: at once.") var dismissSeconds: Int?

        func run() async throws {
            try await change.send(event: "end", priority: nil) { content in
                if let dismissSeconds { content.field("dismissal_date", moment(after: dismissSeconds)) }
            }
        }
    }
}

/// Which Live Activity is meant. Another owner may have one of the same id.
struct ActivityArguments: ParsableArguments {
    @Argument(help: "The app.") var app: String
    @Argument(help: "The activity's id.") var id: String
    @Option(help: "Whose it is.") var user: String?
    @Option(help: "Whose it is, if the installation has no user.") var installation: String?

    func validate() throws {
        guard (user == nil) != (installation == nil) else {
            throw ValidationError("say whose it is: --user, or --installation without a user")
        }
    }
}

/// The common options of an update and an end.
struct ActivityChangeOptions: ParsableArguments {
    @OptionGroup var state: NewStateOptions
    @OptionGroup var name: ActivityArguments

    /// - Parameter content: Writes further fields of `content`.
    func send(event: String, priority: Int?, _ content: (inout JSONWriter) -> Void) async throws {
        try await state.send(to: "/v1/apps/\(name.app.percentEncoded)/notifications", event: event, content) { request in
            request.object("to") { to in
                to.field("user", name.user)
                to.field("installation", name.installation)
                to.field("activity", name.id)
            }
            request.field("priority", priority)
        }
    }
}

private func activityTable(_ activities: [JSONValue]) -> String {
    var table = Table("ID", "STATE", "OWNER", "TYPE", "STARTED", "ENDS", "NEWEST", "WAITING")
    for activity in activities {
        func text(_ field: String) -> String { activity[field]?.stringValue ?? "-" }
        let owner = activity["user"]?.stringValue ?? activity["installation"]?.stringValue.map { "installation \($0)" } ?? "-"
        table.add(
            text("id"), text("state"), owner, text("attributes_type"), text("started_at"), text("ends_at"), text("newest"),
            activity["waiting"]?.boolValue == true ? "yes" : "no")
    }
    return table.description
}
