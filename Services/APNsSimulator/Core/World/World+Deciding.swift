import Synchronization

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
            var (step, receipt) = Self.decide(facts, id: id, refusal, origin, now, unknownDevices, &state)
            step.delay += origin.delay
            state.counters.note(step, isShown: receipt?.reception == .shown)
            let sequence = state.journal.append(JournalRecord(facts, id: id, step, receipt, origin, now))
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
    ) -> (step: ScriptedAnswer, receipt: Receipt?) {
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
                    ?? (unknownDevices == .accept ? .accepted : Answer(.badDeviceToken)))
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
