package import PushModel

/// A row of `tokens` while a batch is worked out. Times are UNIX milliseconds.
package struct TokenState: Sendable {
    package enum Writing: Sendable {
        case nothing
        /// A registration names it again. This activates it as well: an answer of APNs that came after the row was read is about the
        /// registration before.
        case refresh
        case everything, deletion
    }

    /// Nil until it is stored.
    package let id: Int64?
    package let app: App.ID
    package let token: DeviceToken
    package let purpose: Purpose
    package private(set) var environment: APNsEnvironment
    package private(set) var installation: PushID
    package private(set) var registeredAt: Int64
    package private(set) var retired: Retirement?
    /// When the brake put it into quarantine: its retirement may be a fault of ours.
    package private(set) var quarantinedAt: Int64?
    /// When APNs accepted it in this environment for the first time.
    package private(set) var provenAt: Int64?
    package private(set) var writing = Writing.nothing
    /// Its place in the database, if it is active there.
    package let storedPlace: TokenPlace?

    package enum RetiredReason: String, Sendable { case replaced, removed, deregistered, gone, rejected, stale }

    package struct Retirement: Equatable, Sendable {
        package var at: Int64
        package var reason: RetiredReason
    }

    package init(
        id: Int64?, app: App.ID, named: RegisteredToken, installation: PushID, registeredAt: Int64, retired: Retirement? = nil,
        quarantinedAt: Int64? = nil, provenAt: Int64? = nil
    ) {
        self.id = id
        self.app = app
        token = named.token
        environment = named.environment
        purpose = named.purpose
        self.installation = installation
        self.registeredAt = registeredAt
        self.retired = retired
        self.quarantinedAt = quarantinedAt
        self.provenAt = provenAt
        let place = TokenPlace(installation: InstallationKey(app: app, id: installation), environment: environment, purpose: purpose)
        storedPlace = id != nil && retired == nil ? place : nil
    }

    package var holder: InstallationKey { InstallationKey(app: app, id: installation) }
    package var place: TokenPlace { TokenPlace(installation: holder, environment: environment, purpose: purpose) }
    package var named: RegisteredToken { RegisteredToken(token: token, environment: environment, purpose: purpose) }
    package var isActive: Bool { retired == nil && !isDeleted }
    package var isProven: Bool { provenAt != nil }
    package var isDeleted: Bool { writing == .deletion }

    /// Retired, and not because APNs rejected it: a restore from quarantine may undo that, and then the client's later statement counts.
    package var isOver: Bool { retired.map { $0.reason != .rejected } ?? false }

    /// The form in which history keeps it.
    package var historical: HistoryEntry.Token {
        HistoryEntry.Token(id: id, hint: token.hint, environment: environment.rawValue, purpose: purpose.rawValue)
    }
}

extension TokenState {
    package mutating func retire(_ reason: RetiredReason, at now: Int64) {
        retired = Retirement(at: now, reason: reason)
        quarantinedAt = nil
        writing = .everything
    }

    package mutating func revive() {
        retired = nil
        quarantinedAt = nil
        writing = .everything
    }

    package mutating func quarantine(at now: Int64) {
        quarantinedAt = now
        writing = .everything
    }

    /// It stays retired.
    package mutating func leaveQuarantine() {
        quarantinedAt = nil
        writing = .everything
    }

    package mutating func prove(in environment: APNsEnvironment, at now: Int64) {
        self.environment = environment
        provenAt = provenAt ?? now
        writing = .everything
    }

    /// The row of the same token in the other environment was registered then.
    package mutating func inherit(registeredAt moment: Int64) { registeredAt = max(registeredAt, moment) }

    /// Another installation has named the device's token in the other environment.
    package mutating func giveUp(to installation: PushID, at now: Int64) {
        if !isOver { retire(.replaced, at: now) }
        self.installation = installation
        writing = .everything
    }

    /// The installation named it: from now on it is there, active and registered.
    package mutating func bind(to installation: PushID, at now: Int64) {
        if retired != nil || self.installation != installation { writing = .everything }
        if writing == .nothing { writing = .refresh }
        self.installation = installation
        registeredAt = now
        retired = nil
        quarantinedAt = nil
    }

    package mutating func delete() { writing = .deletion }
}

/// A place in which at most one token of an installation may be active.
package struct TokenPlace: Hashable, Sendable {
    package let installation: InstallationKey
    package let environment: APNsEnvironment
    package let purpose: Purpose
}
