package import PushModel

/// A tenant. All but its id and slug may change, so it is kept in memory for seconds only (``AppStore/memory``).
package struct App: Equatable, Sendable {
    package typealias ID = Int64

    package let id: ID
    package let slug: AppSlug
    package let bundleID: String
    package let devicePolicy: DevicePolicy
    package let environments: [APNsEnvironment]
    /// An installation that did not register for this many days is flagged as stale; nil: none ever is.
    package let staleAfterDays: Int?
    /// Whether stale installations are removed as well.
    package let removesStale: Bool
    /// The state changes that go to the exchange of outcomes; none twice.
    package var eventStream: [EventLog] = []
    /// At least this far apart are two updates of one Live Activity that count against the system's budget.
    package var activityWindowSeconds = 0
}

/// On how many installations a user may be signed in at once (`docs/registration.md`, rule 5).
package enum DevicePolicy: String, Sendable, CaseIterable {
    case multi, single
}
