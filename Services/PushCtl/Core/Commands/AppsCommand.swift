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
