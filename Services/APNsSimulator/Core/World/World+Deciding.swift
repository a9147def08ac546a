import Synchronization

/// Where a request came from.
struct RequestOrigin {
    let environment: SimulatorEnvironment
    let connection: UInt32
    let stream: Int32
    /// The connection was told to answer nothing.
    var isSilent = false
    /// What the scenario does to it, whatever its checks and its device say.
    var forced: ScriptedAnswer?
    /// By which the scenario makes whatever happens later.
    var delay = Duration.zero
}

extension World {
    /// Notes a request and says what happens to it: a refusal of the request itself, else the token's script, else the device's state.
    ///
    /// - Parameters:
    ///   - id: The `apns-id` of the answer, generated where `facts` has none.
    ///   - now: UNIX milliseconds.
    func settle(
        _ facts: PushFacts, id: MessageID, refusal: RejectionReason?, from origin: RequestOrigin, now: Int64
    ) -> (step: ScriptedAnswer, sequence: Int64) {
        var satisfied: [Waiter] = []
        let settled = state.withLock { state in
            var (step, isShown) = Self.decide(facts, id: id, refusal, origin, now, unknownDevices, &state)
            step.delay += origin.delay
            state.counters.note(step, isShown: isShown)
            let sequence = state.journal.append(JournalRecord(facts, id: id, step, isShown: isShown, origin, now))
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
    /// - Parameter counted: What it was counted as before; nil for one that was still to come.
    func noteLost(_ sequence: Int64, counted: Counters.Kind?, _ loss: AnswerLoss, now: Int64) {
        state.withLock { state in
            if let counted { state.counters.count(counted, -1) }
            state.counters.lost += 1
            state.journal.note(JournalNote(sequence: sequence, time: now, loss: loss))
        }
    }

    /// Counts a request about channels, and says whether it is one too many.
    func overload(now: Int64) -> ScriptedAnswer? { state.withLock { $0.overload(now) } }

    /// Writes what was noted to the journal's file, if there is one. Before the answers leave: whoever has an answer finds the request there.
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
    ) -> (step: ScriptedAnswer, isShown: Bool) {
        if origin.isSilent { return (.silence, false) }
        if origin.forced == nil {
            if let overload = state.overload(now) { return (overload, false) }
            if let refusal { return (.reject(refusal), false) }
        }
        guard let token = facts.token, let index = state.records.index(forKey: token) else {
            return (origin.forced ?? (unknownDevices == .accept ? .accept : .reject(.badDeviceToken)), false)
        }
        let scripted = origin.forced ?? state.records.values[index].script?.next()
        let step =
            scripted
            ?? ScriptedAnswer(
                .answer,
                answer: state.records.values[index].installation?.answer(to: origin.environment, topic: facts.topic, now: now)
                    ?? (unknownDevices == .accept ? .accepted : Answer(.badDeviceToken)))
        guard step.action == .answer, step.answer.isAccepted else { return (step, false) }
        guard let reception = state.records.values[index].installation?.receive(facts, id: id, now: now) else { return (step, false) }
        state.arrivals.append(Arrival(reception, token: token, facts, id: id, now: now))
        return (step, reception == .shown)
    }
}

extension World.State {
    /// A server with more to do than it can do says so, whatever else is wrong with the request.
    fileprivate mutating func overload(_ now: Int64) -> ScriptedAnswer? {
        capacity?.admits(now) ?? true ? nil : .reject(.serviceUnavailable)
    }
}
