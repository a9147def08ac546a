package import PushModel

/// A row of `installations` while a batch is worked out. Times are UNIX milliseconds.
package struct InstallationState: Sendable {
    /// What has to be written, from least to most.
    package enum Writing: Int, Comparable, Sendable {
        case nothing, refresh, everything

        package static func < (left: Writing, right: Writing) -> Bool { left.rawValue < right.rawValue }
    }

    package let key: InstallationKey
    package var owner: String?
    package var epoch: Int64
    package var signedOutReason: SignOutReason?
    package var throttledUntil: Int64?
    package var profile: InstallationProfile
    package var createdAt: Int64
    package var registeredAt: Int64
    package var deregisteredAt: Int64?
    package var staleSince: Int64?
    package var fence: FenceState
    package let isStored: Bool
    package private(set) var writing = Writing.nothing

    package var isRegistered: Bool { deregisteredAt == nil }

    package mutating func needs(_ wanted: Writing) { writing = max(writing, wanted) }
}

/// Why an installation has no owner.
package enum SignOutReason: String, Sendable {
    case logout, superseded, deregistered, stale, erased
}

/// A row of `tokens` while a batch is worked out.
package struct TokenState: Sendable {
    package enum Writing: Sendable {
        case nothing, refresh, everything
    }

    /// Nil until it is stored.
    package let id: Int64?
    package let app: App.ID
    package let token: DeviceToken
    package let environment: APNsEnvironment
    package let purpose: Purpose
    package var installation: PushID
    package var registeredAt: Int64
    package var retired: Retirement?
    /// APNs has accepted it in this environment.
    package let isProven: Bool
    package private(set) var writing = Writing.nothing
    /// The place it has in the database, if it is alive there.
    package let storedPlace: TokenPlace?

    package enum RetiredReason: String, Sendable { case replaced, removed, deregistered, gone, rejected, stale }

    package struct Retirement: Equatable, Sendable {
        package var at: Int64
        package var reason: RetiredReason
    }

    package init(
        id: Int64?, app: App.ID, named: RegisteredToken, installation: PushID, registeredAt: Int64, retired: Retirement? = nil,
        isProven: Bool = false
    ) {
        self.id = id
        self.app = app
        token = named.token
        environment = named.environment
        purpose = named.purpose
        self.installation = installation
        self.registeredAt = registeredAt
        self.retired = retired
        self.isProven = isProven
        let place = TokenPlace(installation: InstallationKey(app: app, id: installation), environment: environment, purpose: purpose)
        storedPlace = id != nil && retired == nil ? place : nil
    }

    package var place: TokenPlace {
        TokenPlace(installation: InstallationKey(app: app, id: installation), environment: environment, purpose: purpose)
    }

    /// Retired, and not because APNs rejected it: that may be found unjust and undone (``QuarantineRestore``), and then what the client has
    /// said since is what holds.
    package var isOver: Bool { retired.map { $0.reason != .rejected } ?? false }

    /// How history remembers it.
    package var historical: HistoryEntry.Token {
        HistoryEntry.Token(id: id, hint: token.hint, environment: environment.rawValue, purpose: purpose.rawValue)
    }

    package mutating func retire(_ reason: RetiredReason, at now: Int64) {
        retired = Retirement(at: now, reason: reason)
        writing = .everything
    }

    /// Another installation has named the device's token in the other environment.
    package mutating func giveUp(to installation: PushID, at now: Int64) {
        if !isOver { retired = Retirement(at: now, reason: .replaced) }
        self.installation = installation
        writing = .everything
    }

    /// The installation named it: from now on it is there, alive and registered.
    package mutating func bind(to installation: PushID, at now: Int64) {
        if retired != nil || self.installation != installation { writing = .everything }
        if case .nothing = writing { writing = .refresh }
        self.installation = installation
        registeredAt = now
        retired = nil
    }
}

/// Where at most one token of an installation may be alive.
package struct TokenPlace: Hashable, Sendable {
    package let installation: InstallationKey
    package let environment: APNsEnvironment
    package let purpose: Purpose
}
