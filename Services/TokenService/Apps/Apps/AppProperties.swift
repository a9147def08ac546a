package import PushModel

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
