import Synchronization

/// The devices, what was pushed to them, and who waits for that. Shared by all loops and the control API behind one short lock.
final class World: Sendable {
    struct State {
        var records: [TokenKey: TokenRecord] = [:]
        var journal: Journal
        var counters = Counters()
        var arrivals = ArrivalLog()
        var broadcast = BroadcastApps()
        var waiters: [Waiter] = []
        var lastWaiter: UInt64 = 0
        /// What the whole server takes; nil is anything.
        var capacity: Throttle?
        /// No push will arrive any more.
        var isOver = false
    }

    let unknownDevices: UnknownDevices
    let state: Mutex<State>
    /// nil: the journal lives in memory only.
    let journalFile: JournalFile?

    init(unknownDevices: UnknownDevices, journalCapacity: Int, journalFile: JournalFile? = nil, capacity: Throttle? = nil) {
        self.unknownDevices = unknownDevices
        self.journalFile = journalFile
        state = Mutex(State(journal: Journal(capacity: journalCapacity, hasFile: journalFile != nil), capacity: capacity))
    }

    // MARK: Devices

    /// Makes or changes a device. An inbox survives as long as the app stays installed in the same environment.
    /// - Returns: false where the token was unknown.
    @discardableResult
    func put(_ device: TokenRecord.Installation, for token: TokenKey, now: Int64) -> Bool {
        change { state in
            var device = device
            let earlier = state.records[token]?.installation
            if let earlier, earlier.environment == device.environment, case .installed = device.state {
                device.inbox = earlier.inbox
                device.badge = earlier.badge
                device.stored = earlier.stored
                device.channels = earlier.channels
            }
            device.accepted = earlier?.accepted ?? 0
            state.records[token, default: TokenRecord()].installation = device
            if device.isOnline { state.deliverStored(to: token, now: now) }
            state.noteDevice(token, now: now)
            return earlier != nil
        }
    }

    func remove(_ token: TokenKey, now: Int64) -> Bool {
        change { state in
            guard let device = state.records[token]?.installation else { return false }
            state.broadcast.unsubscribe(token, from: device.channels, in: device.environment)
            state.noteDevice(token, now: now)
            state.records[token]?.installation = nil
            if state.records[token]?.isEmpty == true { state.records[token] = nil }
            return true
        }
    }

    /// - Parameter script: nil takes the script away.
    func setScript(_ script: AnswerScript?, for token: TokenKey) {
        state.withLock { state in
            state.records[token, default: TokenRecord()].script = script
            if state.records[token]?.isEmpty == true { state.records[token] = nil }
        }
    }

    /// - Returns: nil where no such device was ever installed.
    func inbox(of token: TokenKey, now: Int64) -> [InboxNotification]? {
        let inbox = state.withLock { $0.records[token]?.installation?.inbox }
        return inbox?.notifications(now: now)
    }

    /// Every device, ordered by name and token, with how much lies in its inbox.
    func devices() -> [DeviceSummary] {
        let found = state.withLock { state in
            state.records.compactMap { token, record in record.installation.map { (token, $0, record.script) } }
        }
        return found.map { DeviceSummary(token: $0, $1, script: $2) }
            .sorted { ($0.device.name ?? "", $0.device.token) < ($1.device.name ?? "", $1.device.token) }
    }

    func device(_ token: TokenKey) -> DeviceSummary? {
        let found = state.withLock { state in state.records[token].flatMap { record in record.installation.map { ($0, record.script) } } }
        return found.map { DeviceSummary(token: token, $0, script: $1) }
    }
}

/// A device beside what lies on it.
package struct DeviceSummary: Sendable, Equatable {
    package let device: Device
    package let badge: Int64?
    /// Pushes accepted for it, shown or not.
    package let acceptedCount: Int64
    package let inboxCount: Int
    /// Pushes that wait for it to come online.
    package let storedCount: Int
    /// Scripted answers still to come; nil without a script.
    package let scriptRemaining: Int?

    init(token: TokenKey, _ installation: TokenRecord.Installation, script: AnswerScript?) {
        device = Device(
            token: token.hex, environment: installation.environment,
            topics: installation.topics?.map { String(decoding: $0, as: UTF8.self) }, state: installation.state, name: installation.name,
            isOnline: installation.isOnline, throttle: installation.throttle, channels: installation.channels.sorted())
        badge = installation.badge
        acceptedCount = installation.accepted
        inboxCount = installation.inbox.count
        storedCount = installation.stored.count
        scriptRemaining = script?.remaining
    }
}

/// What a push to a token that nobody installed is answered with.
package enum UnknownDevices: String, Sendable, CaseIterable {
    case accept, reject
}
