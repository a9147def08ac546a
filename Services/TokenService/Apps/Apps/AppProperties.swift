package import PushModel
import StrictJSON
package import TokenServiceKit

/// The properties that a caller states when it makes or changes an app.
package struct AppProperties: Equatable, Sendable {
    package static let maximumBundleIDBytes = 155
    package static let staleAfterDays: ClosedRange<Int64> = 1...3650
    package static let activityWindowSeconds: ClosedRange<Int64> = 0...3600

    package var bundleID: String
    package var devicePolicy: DevicePolicy
    /// Not empty, none twice.
    package var environments: [APNsEnvironment]
    package var staleAfterDays: Int?
    package var removesStale: Bool
    /// None twice.
    package var eventStream: [EventLog]
    package var activityWindowSeconds: Int

    package init(
        bundleID: String, devicePolicy: DevicePolicy, environments: [APNsEnvironment], staleAfterDays: Int? = nil,
        removesStale: Bool = false, eventStream: [EventLog] = [], activityWindowSeconds: Int = 0
    ) {
        self.bundleID = bundleID
        self.devicePolicy = devicePolicy
        self.environments = environments
        self.staleAfterDays = staleAfterDays
        self.removesStale = removesStale
        self.eventStream = eventStream
        self.activityWindowSeconds = activityWindowSeconds
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

/// A merge patch (RFC 7396) of an app: nil leaves as it is.
package struct AppChange: Equatable, Sendable {
    package var bundleID: String?
    package var devicePolicy: DevicePolicy?
    package var environments: [APNsEnvironment]?
    /// `.some(nil)`: no installation is stale any more.
    package var staleAfterDays: Int??
    package var removesStale: Bool?
    package var eventStream: [EventLog]?
    package var activityWindowSeconds: Int?

    func apply(to properties: inout AppProperties) {
        if let bundleID { properties.bundleID = bundleID }
        if let devicePolicy { properties.devicePolicy = devicePolicy }
        if let environments { properties.environments = environments }
        if let staleAfterDays { properties.staleAfterDays = staleAfterDays }
        if let removesStale { properties.removesStale = removesStale }
        if let eventStream { properties.eventStream = eventStream }
        if let activityWindowSeconds { properties.activityWindowSeconds = activityWindowSeconds }
    }
}

extension App {
    package var properties: AppProperties {
        AppProperties(
            bundleID: bundleID, devicePolicy: devicePolicy, environments: environments, staleAfterDays: staleAfterDays,
            removesStale: removesStale, eventStream: eventStream, activityWindowSeconds: activityWindowSeconds)
    }
}

extension JSONObjectReader {
    /// `slug` and every property of a new app.
    mutating func newApp() -> (AppSlug, AppProperties)? {
        let slug = string("slug", maximumBytes: 64).flatMap { text -> AppSlug? in
            let slug = AppSlug(text)
            if slug == nil { problem("slug", "invalid_character", AppSlug.rule) }
            return slug
        }
        let bundleID = bundleID()
        let policy = choice("device_policy", of: DevicePolicy.self)
        let environments = environments()
        let days = optionalInteger("stale_after_days", in: AppProperties.staleAfterDays)
        let removesStale = optionalBool("removes_stale") ?? false
        let eventStream = has("event_stream") ? eventStream() : []
        let window = optionalInteger("activity_window_seconds", in: AppProperties.activityWindowSeconds) ?? 0
        finish()
        guard let slug, let bundleID, let policy, let environments, let eventStream else { return nil }
        return (
            slug,
            AppProperties(
                bundleID: bundleID, devicePolicy: policy, environments: environments, staleAfterDays: days.map { Int($0) },
                removesStale: removesStale, eventStream: eventStream, activityWindowSeconds: Int(window))
        )
    }

    /// A merge patch: a field that it does not name stays, and null means none, which only `stale_after_days` may be.
    mutating func appChange() -> AppChange? {
        var change = AppChange()
        if has("bundle_id") { change.bundleID = bundleID() }
        if has("device_policy") { change.devicePolicy = choice("device_policy", of: DevicePolicy.self) }
        if has("environments") { change.environments = environments() }
        if has("stale_after_days") {
            change.staleAfterDays = .some(optionalInteger("stale_after_days", in: AppProperties.staleAfterDays).map { Int($0) })
        }
        if has("removes_stale") { change.removesStale = bool("removes_stale") }
        if has("event_stream") { change.eventStream = eventStream() }
        if has("activity_window_seconds") {
            change.activityWindowSeconds = integer("activity_window_seconds", in: AppProperties.activityWindowSeconds).map { Int($0) }
        }
        finish()
        return change
    }

    private mutating func bundleID() -> String? {
        guard let bundleID = string("bundle_id", maximumBytes: AppProperties.maximumBundleIDBytes) else { return nil }
        if BundleID.isOne(bundleID) { return bundleID }
        problem("bundle_id", "invalid_character", BundleID.rule)
        return nil
    }

    private mutating func environments() -> [APNsEnvironment]? {
        guard let words = strings("environments", maximumCount: 2, maximumBytes: 16) else { return nil }
        let environments = words.compactMap(APNsEnvironment.init(rawValue:))
        if environments.count == words.count, Set(words).count == words.count, !words.isEmpty { return environments }
        problem("environments", "unsupported_value", "one or both of production and sandbox")
        return nil
    }

    private mutating func eventStream() -> [EventLog]? {
        guard let words = strings("event_stream", maximumCount: EventLog.allCases.count, maximumBytes: 16) else { return nil }
        let logs = words.compactMap(EventLog.init(rawValue:))
        if logs.count == words.count, Set(words).count == words.count { return logs }
        problem("event_stream", "unsupported_value", "any of \(EventLog.allCases.map(\.rawValue).joined(separator: ", "))")
        return nil
    }
}

extension AppProperties {
    static let new = JSONSchema.request(
        "NewApp",
        [
            .required("slug", .slug), .required("bundle_id", .bundleID), .required("device_policy", .devicePolicy),
            .required("environments", .environments), .omissible("stale_after_days", .staleAfterDays),
            .omissible("removes_stale", .removesStale.standard(false)), .optional("event_stream", .eventStream),
            .omissible("activity_window_seconds", .activityWindow.standard(0)),
        ])

    static let change = JSONSchema.request(
        "AppChange",
        [
            .optional("bundle_id", .bundleID), .optional("device_policy", .devicePolicy), .optional("environments", .environments),
            .optional("stale_after_days", .staleAfterDays.orNull), .optional("removes_stale", .removesStale),
            .optional("event_stream", .eventStream), .optional("activity_window_seconds", .activityWindow),
        ])
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

    private static let fields: [ResponseSchema<App>.Field] = [
        .required("slug", .slug) { $0.slug },
        .required("bundle_id", .text(.bundleID)) { $0.bundleID },
        .required("device_policy", .word, "On how many installations a user may be signed in at once.") { $0.devicePolicy },
        .required("environments", .array(.word, .environments)) { $0.environments },
        .nullable("stale_after_days", .integer(.staleAfterDays)) { $0.staleAfterDays },
        .required("removes_stale", .boolean, "Whether stale installations are removed.") { $0.removesStale },
        .required("event_stream", .array(.word, .eventStream)) { $0.eventStream },
        .required("activity_window_seconds", .integer(.activityWindow)) { $0.activityWindowSeconds },
    ]
}

extension JSONSchema {
    package static let environment = JSONSchema.words(APNsEnvironment.self)

    fileprivate static let devicePolicy = JSONSchema.words(DevicePolicy.self)
        .described("On how many installations a user may be signed in at once.")
    fileprivate static let bundleID = JSONSchema.string(155, pattern: "^[A-Za-z0-9._-]+$").example("com.example.shop")
        .described("The app's bundle id; APNs topics begin with it.")
    fileprivate static let environments = JSONSchema.array(.environment, minimum: 1, maximum: 2).unique
        .described("Which of Apple's environments its tokens are of.").example(.texts(["production", "sandbox"]))
    fileprivate static let staleAfterDays = JSONSchema.integer(AppProperties.staleAfterDays)
        .described("After how many days without a registration an installation is stale; null: never.")
    fileprivate static let removesStale = JSONSchema.boolean.described("Whether stale installations are removed.")
    fileprivate static let activityWindow = JSONSchema.integer(AppProperties.activityWindowSeconds)
        .described(
            "Two updates of one Live Activity with priority 10 are at least so many seconds apart; of those between, the newest is sent.")
    fileprivate static let eventStream = JSONSchema.array(.words(EventLog.self), maximum: EventLog.allCases.count).unique
        .described("Which state changes go to the exchange push.outcomes as CloudEvents; webhooks do not need it.")
        .example(.texts(["notifications"]))
}

/// A table of state changes, whose rows are numbered in ascending order.
package enum EventLog: String, CaseIterable, Sendable {
    case notifications, installations
    case deviceReceipts = "device_receipts"

    /// In the ids of events.
    package var number: UInt64 {
        switch self {
        case .notifications: 1
        case .installations: 2
        case .deviceReceipts: 3
        }
    }
}
