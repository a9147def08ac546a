package import PushModel
package import TokenServiceApps

/// A row of `tokens` while a batch is worked out. Times are UNIX milliseconds.
package struct TokenState: Sendable {
    package enum Writing: Sendable {
        case nothing
        /// The device reported an activity, and named no start token: an answer of APNs that retired it after the row was read stays.
        case answer
        /// A registration names it again. This activates it as well: an answer of APNs that came after the row was read is about the
        /// registration before.
        case refresh
        /// All of it. It ends a doubt that came after the row was read, as a refresh does.
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
    package private(set) var endsByAPNs: EndsByAPNs
    package private(set) var starts: Starts
    package private(set) var writing = Writing.nothing
    /// The token's place in the database, if it is active there.
    package let storedPlace: TokenPlace?

    package enum RetiredReason: String, Sendable { case replaced, removed, deregistered, gone, rejected, stale }

    package struct Retirement: Equatable, Sendable {
        package var at: Int64
        package var reason: RetiredReason
    }

    /// What APNs has said of the token so far. A registration that names it again keeps it.
    package struct EndsByAPNs: Equatable, Sendable {
        /// When it last said that the token is over.
        package var at: Int64?
        package var times = 0

        /// The app registers it again and again, and APNs says each time that it is over.
        package var isRepeated: Bool { times >= 3 }

        package init(at: Int64? = nil, times: Int = 0) {
            self.at = at
            self.times = times
        }
    }

    /// What became of the starts that APNs accepted for a start token (rule 11 of `docs/registration.md`).
    package struct Starts: Equatable, Sendable {
        /// The time within which a device has reported the activity of a start, in milliseconds.
        package static let fairTime: Int64 = 3_600_000
        /// So many silent starts one after another make a token doubtful, with the next one.
        package static let maximumSilent = 3

        /// When the device last reported an activity of the type, or when the last start was sent that counts. Nil: it has reported none,
        /// and no start counts.
        package var since: Int64?
        /// The silent starts since the last report.
        package var silent = 0
        package var isDoubtful = false

        package init(since: Int64? = nil, silent: Int = 0, isDoubtful: Bool = false) {
            self.since = since
            self.silent = silent
            self.isDoubtful = isDoubtful
        }
    }

    package init(
        id: Int64?, app: App.ID, named: RegisteredToken, installation: PushID, registeredAt: Int64, retired: Retirement? = nil,
        quarantinedAt: Int64? = nil, provenAt: Int64? = nil, endsByAPNs: EndsByAPNs = EndsByAPNs(), starts: Starts = Starts()
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
        self.endsByAPNs = endsByAPNs
        self.starts = starts
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
        starts.isDoubtful = false
        writing = .everything
    }

    /// APNs said at that moment that the token is over.
    package mutating func end(_ reason: RetiredReason, saidAt moment: Int64, at now: Int64) {
        noteEnd(saidAt: moment)
        retire(reason, at: now)
    }

    /// Notes that APNs said so, and does not retire the token: it stays active where APNs knew it before the last registration. It counts
    /// once for each registration.
    package mutating func noteEnd(saidAt moment: Int64) {
        guard moment >= registeredAt, (endsByAPNs.at ?? .min) < registeredAt else { return }
        // PostgreSQL stores it in 16 bits.
        endsByAPNs = EndsByAPNs(at: moment, times: min(endsByAPNs.times + 1, 1000))
        writing = .everything
    }

    /// APNs accepted a start that was sent then. One that is sent within ``Starts/fairTime`` of the one before does not count.
    /// - Returns: whether the token is doubtful from now on.
    package mutating func countStart(sentAt moment: Int64) -> Bool {
        guard let since = starts.since, !starts.isDoubtful, moment >= since + Starts.fairTime else { return false }
        starts.since = moment
        writing = .everything
        guard starts.silent >= Starts.maximumSilent else {
            starts.silent += 1
            return false
        }
        starts.isDoubtful = true
        return true
    }

    /// The device reported an activity of its type.
    package mutating func answerStarts(at now: Int64) {
        starts = Starts(since: now)
        writing = writing == .nothing || writing == .answer ? .answer : .everything
    }

    package mutating func revive() {
        retired = nil
        quarantinedAt = nil
        writing = .everything
    }

    package mutating func quarantine(at now: Int64) {
        quarantinedAt = now
        endsByAPNs = EndsByAPNs(at: nil, times: max(0, endsByAPNs.times - 1))
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
        if retired != nil || starts.isDoubtful || writing == .answer || self.installation != installation { writing = .everything }
        if writing == .nothing { writing = .refresh }
        self.installation = installation
        registeredAt = now
        retired = nil
        quarantinedAt = nil
        (starts.silent, starts.isDoubtful) = (0, false)
    }

    package mutating func delete() { writing = .deletion }
}

/// A place in which at most one token of an installation may be active.
package struct TokenPlace: Hashable, Sendable {
    package let installation: InstallationKey
    package let environment: APNsEnvironment
    package let purpose: Purpose
}
