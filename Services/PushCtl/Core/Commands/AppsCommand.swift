import ArgumentParser
import PushAPI
import PushModel
import StrictJSON

struct AppsCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "apps", abstract: "Apps (tenants).", subcommands: [Create.self, List.self, Show.self, Update.self])

    struct Create: AsyncParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Make an app. Saying the same again changes nothing.")
        @OptionGroup var connection: ConnectionOptions
        @OptionGroup var output: OutputOptions
        @Argument(help: "Its short name: \(AppSlug.rule).") var slug: String
        @Option(help: "The bundle id, which is the topic of its pushes.") var bundleID: String
        @Option(help: "multi: a user may be signed in on many devices; single: on one.") var devicePolicy = "multi"
        @Option(help: "A comma-separated list of production, sandbox.") var environments = "production,sandbox"

        func run() async throws {
            let app = try await connection.withClient { client in
                try await client.createApp(
                    slug: slug, bundleID: bundleID, devicePolicy: devicePolicy,
                    environments: environments.split(separator: ",").map(String.init))
            }
            try output.show(app, "\(slug) is there" + appWarnings(app))
        }
    }

    struct List: AsyncParsableCommand {
        static let configuration = CommandConfiguration(abstract: "List the apps.")
        @OptionGroup var connection: ConnectionOptions
        @OptionGroup var output: OutputOptions

        func run() async throws {
            let answer = try await connection.withClient { client in try await client.get("/v1/admin/apps") }
            try output.show(answer, appTable(answer["apps"]?.arrayValue ?? []))
        }
    }
}

/// The service's warnings, a line for each.
func appWarnings(_ app: JSONValue) -> String {
    (app["warnings"]?.arrayValue ?? []).map { "\nwarning: \($0["detail"]?.stringValue ?? "?")" }.joined()
}

/// One row per app.
func appTable(_ apps: [JSONValue]) -> Table {
    var table = Table("APP", "BUNDLE ID", "DEVICES", "ENVIRONMENTS", "STALE AFTER", "STALE ONES", "EVENTS")
    for app in apps {
        let days = app["stale_after_days"]?.integerValue
        table.add(
            app["slug"]?.stringValue ?? "?", app["bundle_id"]?.stringValue ?? "?", app["device_policy"]?.stringValue ?? "?",
            (app["environments"]?.arrayValue ?? []).compactMap(\.stringValue).joined(separator: ","),
            days.map { counted($0, "day", "days") } ?? "never",
            days == nil ? "-" : app["removes_stale"]?.boolValue == true ? "removed" : "flagged",
            (app["event_stream"]?.arrayValue ?? []).compactMap(\.stringValue).joined(separator: ","))
    }
    return table
}

extension PushAPI {
    @discardableResult
    func createApp(slug: String, bundleID: String, devicePolicy: String, environments: [String]) async throws -> JSONValue {
        try await post("/v1/admin/apps") { body in
            body.field("slug", slug)
            body.field("bundle_id", bundleID)
            body.field("device_policy", devicePolicy)
            body.field("environments", environments)
        }
    }
}

extension AppsCommand {
    struct Show: AsyncParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Show an app.")
        @OptionGroup var connection: ConnectionOptions
        @OptionGroup var output: OutputOptions
        @Argument(help: "Its short name.") var slug: String

        func run() async throws {
            let app = try await connection.withClient { client in try await client.get("/v1/admin/apps/\(slug.percentEncoded)") }
            try output.show(app, appTable([app]))
        }
    }

    struct Update: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Change an app. What is not named stays as it is.",
            discussion: """
                Other instances of the token service notice within five seconds. A new device policy holds from a user's next registration. \
                An environment that active tokens live in cannot be taken away.
                """)
        @OptionGroup var connection: ConnectionOptions
        @OptionGroup var output: OutputOptions
        @Argument(help: "Its short name.") var slug: String
        @Option(help: "The bundle id, which is the topic of its pushes.") var bundleID: String?
        @Option(help: "multi: a user may be signed in on many devices; single: on one.") var devicePolicy: String?
        @Option(help: "A comma-separated list of production, sandbox.") var environments: String?
        @Option(help: "Installations that did not register for so many days are stale.") var staleAfterDays: Int?
        @Flag(help: "No installation is ever stale.") var neverStale = false
        @Option(
            help: """
                Which state changes go to the exchange of outcomes: none, or a comma-separated list of notifications, installations, \
                device_receipts.
                """)
        var eventStream: String?
        @Option(help: "Two updates of a Live Activity with priority 10 are at least so many seconds apart; 0: no window.")
        var activityWindowSeconds: Int?
        @Flag(help: "Whether stale installations are removed, or only flagged.") var stale: Stale?

        enum Stale: EnumerableFlag {
            case removeStale, keepStale
        }

        func validate() throws {
            guard staleAfterDays == nil || !neverStale else { throw ValidationError("give one of --stale-after-days and --never-stale") }
            guard
                bundleID != nil || devicePolicy != nil || environments != nil || staleAfterDays != nil || neverStale || stale != nil
                    || eventStream != nil || activityWindowSeconds != nil
            else {
                throw ValidationError("say what to change, for example --device-policy single")
            }
        }

        func run() async throws {
            let app = try await connection.withClient { client in
                try await client.patch("/v1/admin/apps/\(slug.percentEncoded)") { body in
                    body.field("bundle_id", bundleID)
                    body.field("device_policy", devicePolicy)
                    if let environments { body.field("environments", environments.split(separator: ",").map(String.init)) }
                    body.field("stale_after_days", staleAfterDays)
                    if neverStale { body.null("stale_after_days") }
                    if let eventStream {
                        body.field("event_stream", eventStream == "none" ? [] : eventStream.split(separator: ",").map(String.init))
                    }
                    body.field("activity_window_seconds", activityWindowSeconds)
                    if let stale { body.field("removes_stale", stale == .removeStale) }
                }
            }
            try output.show(app, "\(appTable([app]))" + appWarnings(app))
        }
    }
}
