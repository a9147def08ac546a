package import PushModel
import StrictJSON
package import TokenServiceKit

/// The properties that a caller states when it makes or changes an app. A further one is a stored property, with the value of an app that
/// does not state it, an entry of ``all``, and a column.
package struct AppProperties: Equatable, Sendable {
    package var bundleID = ""
    package var devicePolicy = DevicePolicy.multi
    /// Not empty, none twice.
    package var environments: [APNsEnvironment] = []
    /// An installation that did not register for this many days is flagged as stale; nil: none ever is.
    package var staleAfterDays: Int?
    /// Whether stale installations are removed as well.
    package var removesStale = false
    /// The state changes that go to the exchange of outcomes; none twice.
    package var eventStream: [EventLog] = []
    /// At least this far apart are two updates of one Live Activity that count against the system's budget.
    package var activityWindowSeconds = 0

    package static let all: [Property<AppProperties>] = [
        .required("bundle_id", \.bundleID, .text(.bundleID), "The app's bundle id; APNs topics begin with it."),
        .required("device_policy", \.devicePolicy, .word, "On how many installations a user may be signed in at once."),
        .required(
            "environments", \.environments,
            .words(.words(minimum: 1, "one or both of production and sandbox").example(.texts(["production", "sandbox"]))),
            "Which of Apple's environments its tokens are of."),
        .nullable(
            "stale_after_days", \.staleAfterDays, .integer(1...3650),
            "After how many days without a registration an installation is stale; null: never."),
        .omissible("removes_stale", \.removesStale, .boolean, "Whether stale installations are removed.", standard: false),
        .optional(
            "event_stream", \.eventStream,
            .words(.words("any of \(EventLog.allCases.map(\.rawValue).joined(separator: ", "))").example(.texts(["notifications"]))),
            "Which state changes go to the exchange push.outcomes as CloudEvents; webhooks do not need it."),
        .omissible(
            "activity_window_seconds", \.activityWindowSeconds, .integer(0...3600),
            "Two updates of one Live Activity with priority 10 are at least so many seconds apart; of those between, the newest is sent.",
            standard: 0),
    ]

    /// Without any field: no app is like it.
    init() {}

    package init(bundleID: String, devicePolicy: DevicePolicy, environments: [APNsEnvironment]) {
        self.bundleID = bundleID
        self.devicePolicy = devicePolicy
        self.environments = environments
    }

    /// The order of environments does not count.
    func isSame(as other: AppProperties) -> Bool {
        var other = other
        guard Set(environments) == Set(other.environments), Set(eventStream) == Set(other.eventStream) else { return false }
        other.environments = environments
        other.eventStream = eventStream
        return self == other
    }
}

/// A merge patch (RFC 7396) of an app.
package typealias AppChange = Patch<AppProperties>

extension JSONObjectReader {
    /// `slug` and every property of a new app.
    mutating func newApp() -> (AppSlug, AppProperties)? {
        let slug = RequestSchema.slug.read(&self, "slug")
        guard let properties = AppProperties.new.read(&self, from: AppProperties()), let slug else { return nil }
        return (slug, properties)
    }

    /// A merge patch: a field that it does not name stays, and null means none, which only `stale_after_days` may be.
    mutating func appChange() -> AppChange? { AppProperties.change.read(&self, from: AppChange()) }
}

extension AppProperties {
    fileprivate static let new = Fields(all.map(\.new))
    fileprivate static let change = Fields(all.map(\.change))

    static let newBody = JSONSchema.request("NewApp", [.required("slug", RequestSchema.slug.schema)] + new.described)
    static let changeBody = JSONSchema.request("AppChange", change.described)
}

extension RequestSchema where Value == AppSlug {
    fileprivate static let slug = RequestSchema<String>.text(64, .slug).checked("invalid_character", AppSlug.rule) { AppSlug($0) }
}

extension RequestSchema where Value == String {
    fileprivate static let bundleID = text(155, .string(155, pattern: "^[A-Za-z0-9._-]+$").example("com.example.shop"))
        .checked("invalid_character", BundleID.rule) { BundleID.isOne($0) ? $0 : nil }
}

extension App {
    static let response = ResponseSchema<App>.object("App", fields)
    static let list = ResponseSchema<[App]>.object("Apps", [.required("apps", .array(response)) { $0 }])

    /// With what keeps it, or may keep it, from sending.
    static let made = ResponseSchema<(app: App, warnings: [AppWarning])>.object(
        "MadeApp",
        [
            .all(fields) { $0.app },
            .required(
                "warnings", .array(warning),
                "`no_credential`: an environment that no dispatcher has reported a credential for, so nothing is sent there. "
                    + "`doubtful_bundle_id`: a bundle id that looks like a topic, or that begins with a team id."
            ) { $0.warnings },
        ])

    private static let warning = ResponseSchema<AppWarning>.object(
        nil, [.required("code", .word) { $0.code }, .required("detail", .text(), "For people.") { $0.detail }])

    private static let fields: [ResponseSchema<App>.Field] =
        [.required("slug", .slug) { $0.slug }, .all(AppProperties.all.map(\.shown)) { $0.properties }]
}

extension JSONSchema {
    package static let environment = JSONSchema.words(APNsEnvironment.self)
}
