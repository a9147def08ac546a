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
        @OptionGroup var properties: AppOptions

        func validate() throws {
            guard properties.bundleID != nil else { throw ValidationError("Missing expected argument '--bundle-id <bundle-id>'") }
        }

        func run() async throws {
            let app = try await connection.withClient { client in
                try await client.post("/v1/admin/apps") { body in
                    body.field("slug", slug)
                    properties.ofNewApp.write(to: &body)
                }
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
    var table = Table(["APP"] + AppOptions.all.map(\.heading))
    for app in apps { table.add([app["slug"]?.stringValue ?? "?"] + AppOptions.all.map { $0.text(app) }) }
    return table
}

/// What a command may state of an app. A further property is an option and an entry of ``all``, of which come the body and the table.
struct AppOptions: ParsableArguments {
    @Option(help: "The bundle id, which is the topic of its pushes.") var bundleID: String?
    @Option(help: "multi: a user may be signed in on many devices; single: on one. A new app: multi.") var devicePolicy: String?
    @Option(help: "A comma-separated list of \(words(APNsEnvironment.self)). A new app: both.") var environments: String?
    @Option(help: "Installations that did not register for so many days are stale.") var staleAfterDays: Int?
    @Flag(help: "No installation is ever stale.") var neverStale = false
    @Flag(help: "Whether stale installations are removed, or only flagged.") var stale: Stale?
    @Option(help: "Which state changes go to the exchange of outcomes: none, or a comma-separated list of \(words(EventLog.self)).")
    var eventStream: String?
    @Option(help: "Two updates of a Live Activity with priority 10 are at least so many seconds apart; 0: no window.")
    var activityWindowSeconds: Int?

    enum Stale: EnumerableFlag {
        case removeStale, keepStale
    }

    /// A field of the body, and a column of the table.
    struct Property: Sendable {
        let field: String
        let heading: String
        let write: @Sendable (AppOptions, String, inout JSONWriter) -> Void
        let text: @Sendable (JSONValue) -> String
    }

    static let all: [Property] = [
        .text("bundle_id", "BUNDLE ID") { $0.bundleID }, .text("device_policy", "DEVICES") { $0.devicePolicy },
        .words("environments", "ENVIRONMENTS") { $0.environments },
        Property(field: "stale_after_days", heading: "STALE AFTER") { options, name, body in
            if options.neverStale { body.null(name) } else { body.field(name, options.staleAfterDays) }
        } text: {
            $0["stale_after_days"]?.integerValue.map { counted($0, "day", "days") } ?? "never"
        },
        Property(field: "removes_stale", heading: "STALE ONES") { options, name, body in
            if let stale = options.stale { body.field(name, stale == .removeStale) }
        } text: { app in
            app["stale_after_days"]?.integerValue == nil ? "-" : app["removes_stale"]?.boolValue == true ? "removed" : "flagged"
        },
        .words("event_stream", "EVENTS") { $0.eventStream },
        .number("activity_window_seconds", "ACTIVITY WINDOW", unit: " s") { $0.activityWindowSeconds },
    ]

    func validate() throws {
        guard staleAfterDays == nil || !neverStale else { throw ValidationError("give one of --stale-after-days and --never-stale") }
    }

    /// With what the service asks of a new app, if the command does not say it.
    var ofNewApp: AppOptions {
        var properties = self
        properties.devicePolicy = devicePolicy ?? "multi"
        properties.environments = environments ?? "production,sandbox"
        return properties
    }

    func write(to body: inout JSONWriter) {
        for property in Self.all { property.write(self, property.field, &body) }
    }

    private static func words<Word: CaseIterable & RawRepresentable<String>>(_: Word.Type) -> String {
        Word.allCases.map(\.rawValue).joined(separator: ", ")
    }
}

extension AppOptions.Property {
    fileprivate static func text(_ field: String, _ heading: String, _ option: @escaping @Sendable (AppOptions) -> String?) -> Self {
        Self(field: field, heading: heading) {
            $2.field($1, option($0))
        } text: {
            $0[field]?.stringValue ?? "?"
        }
    }

    /// `none` is the empty list.
    fileprivate static func words(_ field: String, _ heading: String, _ option: @escaping @Sendable (AppOptions) -> String?) -> Self {
        Self(field: field, heading: heading) { options, name, body in
            guard let words = option(options) else { return }
            body.field(name, words == "none" ? [] : words.split(separator: ",").map(String.init))
        } text: { app in
            let words = (app[field]?.arrayValue ?? []).compactMap(\.stringValue)
            return words.isEmpty ? "-" : words.joined(separator: ",")
        }
    }

    fileprivate static func number(
        _ field: String, _ heading: String, unit: String = "", _ option: @escaping @Sendable (AppOptions) -> Int?
    ) -> Self {
        Self(field: field, heading: heading) {
            $2.field($1, option($0))
        } text: {
            $0[field]?.integerValue.map { "\($0)\(unit)" } ?? "-"
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
                Other instances of the token service notice within five seconds. A new device policy holds from a user's next \
                registration. An environment that active tokens live in cannot be taken away.
                """)
        @OptionGroup var connection: ConnectionOptions
        @OptionGroup var output: OutputOptions
        @Argument(help: "Its short name.") var slug: String
        @OptionGroup var properties: AppOptions

        func validate() throws {
            guard JSONWriter.object(properties.write) != Array("{}".utf8) else {
                throw ValidationError("say what to change, for example --device-policy single")
            }
        }

        func run() async throws {
            let app = try await connection.withClient { client in
                try await client.patch("/v1/admin/apps/\(slug.percentEncoded)", properties.write)
            }
            try output.show(app, "\(appTable([app]))" + appWarnings(app))
        }
    }
}
