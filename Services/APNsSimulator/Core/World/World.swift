import Synchronization

/// The devices, their pushes, and the callers that wait for these. Shared by all loops and the control API behind one short lock.
final class World: Sendable {
    struct State {
        var records: [TokenKey: TokenRecord] = [:]
        var journal: Journal
        var counters = Counters()
        var arrivals = ArrivalLog()
        var broadcast = BroadcastApps()
        var waiters: [Waiter] = []
        var lastWaiter: UInt64 = 0
        /// The limit of the whole server; nil is none.
        var capacity: Throttle?
        var rules: WorldRules
        /// No push will arrive any more.
        var isOver = false
    }

    let unknownDevices: UnknownDevices
    /// UNIX milliseconds.
    let clock: @Sendable () -> Int64
    let state: Mutex<State>
    /// nil: the journal lives in memory only.
    let journalFile: JournalFile?

    init(
        unknownDevices: UnknownDevices, journalCapacity: Int, journalFile: JournalFile? = nil, rules: WorldRules = WorldRules(),
        clock: @escaping @Sendable () -> Int64
    ) {
        self.unknownDevices = unknownDevices
        self.clock = clock
        self.journalFile = journalFile
        let capacity = rules.requestsPerSecond.map { Throttle(pushes: Int64($0), milliseconds: 1000) }
        state = Mutex(
            State(journal: Journal(capacity: journalCapacity, hasFile: journalFile != nil), capacity: capacity, rules: rules))
    }

    /// How APNs behaves from now on, as the scenario says.
    func adopt(_ readings: Readings) { state.withLock { $0.rules.readings = readings } }

    // MARK: Devices

    enum PutResult: Sendable {
        case made, changed
        /// The token, or one of the start tokens, belongs to another device.
        case taken
    }

    /// Makes or changes a device. An inbox survives as long as the app stays installed in the same environment.
    @discardableResult
    func put(_ device: TokenRecord.Installation, for token: TokenKey, now: Int64) -> PutResult {
        change { state in
            guard state.hasFree(token, startTokens: device.startTokens.map(\.token)) else { return .taken }
            var device = device
            let earlier = state.records[token]?.installation
            var startTokensBefore: [(token: TokenKey, attributesType: String)] = []
            if let earlier, earlier.environment == device.environment, device.state.hasApp {
                device.take(over: earlier)
                startTokensBefore = earlier.startTokens
            } else if earlier != nil {
                state.removeApp(from: token, since: now, pushesUntilGone: 0)
                device.activities.tokens = state.records[token]?.installation?.activities.tokens ?? []
            }
            device.accepted = earlier?.accepted ?? 0
            state.records[token, default: TokenRecord()].purpose = nil
            state.records[token]?.installation = device
            state.setStartTokens(of: token, before: startTokensBefore, now: now)
            if device.isOnline { state.deliverStored(to: token, now: now) }
            state.noteDevice(token, now: now)
            return earlier == nil ? .made : .changed
        }
    }

    func remove(_ token: TokenKey, now: Int64) -> Bool {
        change { state in
            guard let device = state.records[token]?.installation else { return false }
            state.broadcast.unsubscribe(token, from: device.following, in: device.environment)
            state.noteDevice(token, now: now)
            for other in device.activities.tokens { state.setPurpose(nil, of: other) }
            state.records[token]?.installation = nil
            if state.records[token]?.isEmpty == true { state.records[token] = nil }
            return true
        }
    }

    /// - Parameter script: nil removes the script.
    func setScript(_ script: AnswerScript?, for token: TokenKey) {
        state.withLock { state in
            state.records[token, default: TokenRecord()].script = script
            if state.records[token]?.isEmpty == true { state.records[token] = nil }
        }
    }

    /// - Returns: nil if no such device was ever installed.
    func inbox(of token: TokenKey, now: Int64) -> [InboxNotification]? {
        let inbox = state.withLock { $0.records[token]?.installation?.inbox }
        return inbox?.notifications(now: now)
    }

    /// Every device, ordered by name and token, with the size of its inbox.
    func devices() -> [DeviceSummary] {
        let found = state.withLock { state in
            state.records.compactMap { token, record in record.installation.map { (token, $0, record.script) } }
        }
        let now = clock()
        return found.map { DeviceSummary(token: $0, $1, script: $2, now: now) }
            .sorted { ($0.device.name ?? "", $0.device.token) < ($1.device.name ?? "", $1.device.token) }
    }

    func device(_ token: TokenKey) -> DeviceSummary? {
        let found = state.withLock { state in state.records[token].flatMap { record in record.installation.map { ($0, record.script) } } }
        let now = clock()
        return found.map { DeviceSummary(token: token, $0, script: $1, now: now) }
    }
}

/// A device with the figures of its inbox and script.
package struct DeviceSummary: Sendable, Equatable {
    package let device: Device
    package let badge: Int64?
    /// Pushes accepted for it, shown or not.
    package let acceptedCount: Int64
    package let inboxCount: Int
    /// Pushes that wait for it to come online.
    package let storedCount: Int
    /// Live Activities on its lock screen.
    package let activityCount: Int
    /// Broadcasts that it did not get because it was off.
    package let missedCount: Int64
    /// Scripted answers that are left; nil without a script.
    package let scriptRemaining: Int?

    init(token: TokenKey, _ installation: TokenRecord.Installation, script: AnswerScript?, now: Int64) {
        device = Device(
            token: token.hex, environment: installation.environment,
            topics: installation.topics?.map { String(decoding: $0, as: UTF8.self) }, state: installation.state, name: installation.name,
            isOnline: installation.isOnline, throttle: installation.throttle,
            channels: installation.following.sorted(),
            startTokens: installation.startTokens.map { StartToken(attributesType: $0.attributesType, token: $0.token.hex) },
            hasFrequentUpdates: installation.hasFrequentUpdates)
        badge = installation.badge
        acceptedCount = installation.accepted
        inboxCount = installation.inbox.count(now: now)
        storedCount = installation.stored.count
        activityCount = installation.activities.all.count { $0.state(now: now) != .dismissed }
        missedCount = installation.missed
        scriptRemaining = script?.remaining
    }
}

/// What the settings and the scenario say for all devices. A limit that is nil is none.
struct WorldRules: Sendable {
    /// Of the whole server.
    var requestsPerSecond: Int?
    /// To one channel.
    var broadcastsPerSecond: Int?
    /// Updates with priority 10 that one Live Activity shows in an hour.
    var activityBudgetPerHour: Int?
    var readings = Readings()
}

/// The answer to a push to a token that no device has.
package enum UnknownDevices: String, Sendable, CaseIterable {
    case accept, reject
}
