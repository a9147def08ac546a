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
    /// The limit of the whole server.
    var requestsPerSecond: Int?
    /// The limit of one channel.
    var broadcastsPerSecond: Int?
    /// Updates with priority 10 that one Live Activity shows in an hour.
    var activityBudgetPerHour: Int?
    var readings = Readings()
}

/// The answer to a push to a token that no device has.
package enum UnknownDevices: String, Sendable, CaseIterable {
    case accept, reject
}

/// The origin of a request.
struct RequestOrigin {
    let environment: SimulatorEnvironment
    let connection: UInt32
    let stream: Int32
    /// The connection answers nothing: by command, by the scenario, or because its output is frozen.
    var isSilent = false
    /// The scenario's result, regardless of its checks and its device.
    var forced: ScriptedAnswer?
    /// The scenario's delay of any result.
    var delay = Duration.zero
}

extension World {
    /// Records a request and returns its result: a refusal of the request itself, else the token's script, else the device's state.
    ///
    /// - Parameters:
    ///   - id: The `apns-id` of the answer, generated if `facts` has none.
    ///   - now: UNIX milliseconds.
    func settle(
        _ facts: PushFacts, id: MessageID, refusal: RejectionReason?, from origin: RequestOrigin, now: Int64
    ) -> (step: ScriptedAnswer, sequence: Int64) {
        var satisfied: [Waiter] = []
        let settled = state.withLock { state in
            var (step, result) = Self.decide(facts, id: id, refusal, origin, now, unknownDevices, &state)
            step.delay += origin.delay
            state.counters.note(step, isShown: result?.reception == .shown)
            let sequence = state.journal.append(JournalRecord(facts, id: id, step, result, origin, now))
            if !state.waiters.isEmpty { satisfied = state.takeSatisfiedWaiters(now: now) }
            return (step, sequence)
        }
        for waiter in satisfied { waiter.continuation.resume(returning: true) }
        return settled
    }

    /// A late answer is handed to its connection.
    func noteAnswered(_ sequence: Int64, _ kind: Counters.Kind, now: Int64) {
        state.withLock { state in
            state.counters.count(kind, 1)
            state.journal.note(JournalNote(sequence: sequence, time: now, loss: nil))
        }
    }

    /// An answer does not reach its client.
    /// - Parameter counted: How it was counted before; nil for a pending one.
    func noteLost(_ sequence: Int64, counted: Counters.Kind?, _ loss: AnswerLoss, now: Int64) {
        state.withLock { state in
            if let counted { state.counters.count(counted, -1) }
            state.counters.lost += 1
            state.journal.note(JournalNote(sequence: sequence, time: now, loss: loss))
        }
    }

    /// Counts a request about channels, and returns an answer if it is one too many.
    func overload(now: Int64) -> ScriptedAnswer? { state.withLock { $0.overload(now) } }

    /// Writes the new records to the journal's file, if there is one. Before the answers leave, so that a client that has an answer finds
    /// the request there.
    /// - Returns: the file's first failure.
    func writeJournal() -> JournalFile.Failure? {
        journalFile?.write { buffer in state.withLock { $0.journal.takeUnwritten(&buffer) } }
    }

    func noteConnectionOpened() {
        state.withLock { $0.counters.connectionsOpened += 1 }
    }

    /// - Parameter handshakeFailed: It ended before HTTP/2 began.
    func noteConnectionClosed(handshakeFailed: Bool) {
        state.withLock { state in
            state.counters.connectionsClosed += 1
            if handshakeFailed { state.counters.handshakesFailed += 1 }
        }
    }

    private static func decide(
        _ facts: PushFacts, id: MessageID, _ refusal: RejectionReason?, _ origin: RequestOrigin, _ now: Int64,
        _ unknownDevices: UnknownDevices, _ state: inout State
    ) -> (step: ScriptedAnswer, result: DeviceResult?) {
        if origin.isSilent { return (.silence, nil) }
        if origin.forced == nil {
            if let overload = state.overload(now) { return (overload, nil) }
            if let refusal { return (.reject(refusal), nil) }
        }
        guard let token = facts.token, let index = state.records.index(forKey: token) else {
            return (origin.forced ?? (unknownDevices == .accept ? .accept : .reject(.badDeviceToken)), nil)
        }
        let scripted = origin.forced ?? state.records.values[index].script?.next()
        let step =
            scripted
            ?? ScriptedAnswer(
                .answer,
                answer: state.answer(at: index, facts, origin, now: now)
                    ?? (unknownDevices == .accept ? .accepted : StatusAnswer(.badDeviceToken)))
        guard step.action == .answer, step.answer.isAccepted else { return (step, nil) }
        return (step, state.receive(at: index, token, facts, id: id, now: now))
    }
}

extension World.State {
    /// An overloaded server says so even if the request has another fault.
    fileprivate mutating func overload(_ now: Int64) -> ScriptedAnswer? {
        capacity?.admits(now) ?? true ? nil : .reject(.serviceUnavailable)
    }
}

/// A caller that waits until a condition holds.
struct Waiter {
    enum Condition: Sendable {
        /// The inbox of this token holds this many entries.
        case inbox(TokenKey, count: Int)
        /// This many requests have been recorded since the start.
        case requests(total: Int64)
        /// This many pushes were accepted for this token's device, shown or not.
        case accepted(TokenKey, count: Int64)
        /// The Live Activities of this token's device have changed this often.
        case activityChanges(TokenKey, count: Int64)
        /// This many arrivals have been recorded since the start.
        case arrivals(total: Int64)
    }

    let number: UInt64
    let condition: Condition
    /// True: the condition holds. False: the wait was given up.
    let continuation: CheckedContinuation<Bool, Never>
}

extension World.State {
    func satisfies(_ condition: Waiter.Condition, now: Int64) -> Bool {
        switch condition {
        case .inbox(let token, let count): records[token]?.installation.map { $0.inbox.count(now: now) >= count } ?? (count <= 0)
        case .requests(let total): journal.nextSequence > total
        case .accepted(let token, let count): records[token]?.installation.map { $0.accepted >= count } ?? (count <= 0)
        case .activityChanges(let token, let count):
            records[token]?.installation.map { $0.activities.changes >= count } ?? (count <= 0)
        case .arrivals(let total): arrivals.nextSequence > total
        }
    }

    mutating func takeSatisfiedWaiters(now: Int64) -> [Waiter] {
        let satisfied = waiters.filter { satisfies($0.condition, now: now) }
        if !satisfied.isEmpty { waiters.removeAll { waiter in satisfied.contains { $0.number == waiter.number } } }
        return satisfied
    }
}

extension World {
    /// Suspends until the condition holds, the task is cancelled, or `timeout` has passed.
    /// - Returns: Whether the condition held.
    func wait(for condition: Waiter.Condition, timeout: Duration) async -> Bool {
        await withTaskGroup(of: Bool.self) { group in
            group.addTask { await self.arrival(of: condition) }
            group.addTask {
                // Ends early only when the other task has won.
                do { try await Task.sleep(for: timeout) } catch { return false }
                return false
            }
            let first = await group.next() ?? false
            group.cancelAll()
            return first
        }
    }

    private func arrival(of condition: Waiter.Condition) async -> Bool {
        let number = state.withLock { state in
            state.lastWaiter += 1
            return state.lastWaiter
        }
        return await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                // Under the lock: either the cancellation below finds the waiter, or the flag is seen here.
                let answer: Bool? = state.withLock { state in
                    if state.satisfies(condition, now: clock()) { return true }
                    if Task.isCancelled || state.isOver { return false }
                    state.waiters.append(Waiter(number: number, condition: condition, continuation: continuation))
                    return nil
                }
                if let answer { continuation.resume(returning: answer) }
            }
        } onCancel: {
            giveUp { $0.number == number }
        }
    }

    /// Changes the world other than by a push, and wakes callers that waited for that.
    func change<Result>(_ body: (inout State) -> Result) -> Result {
        let (result, satisfied) = state.withLock { state in
            let result = body(&state)
            return (result, state.waiters.isEmpty ? [] : state.takeSatisfiedWaiters(now: clock()))
        }
        for waiter in satisfied { waiter.continuation.resume(returning: true) }
        return result
    }

    /// Ends every wait, also later ones: nothing more will arrive.
    func close() {
        state.withLock { $0.isOver = true }
        giveUp { _ in true }
    }

    private func giveUp(where isMeant: (Waiter) -> Bool) {
        let waiters = state.withLock { state in
            let waiters = state.waiters.filter(isMeant)
            state.waiters.removeAll(where: isMeant)
            return waiters
        }
        for waiter in waiters { waiter.continuation.resume(returning: false) }
    }
}
