internal import Synchronization
internal import SystemIO

/// A place for one connection, with a thread of its own. Connects when it is used and has no healthy connection.
actor ConnectionSlot {
    private let executor = BlockingExecutor(label: "postgres.connection")
    nonisolated var unownedExecutor: UnownedSerialExecutor { executor.asUnownedSerialExecutor() }

    private let connector: PostgresConnector
    private let breaker: ConnectBreaker
    private var link: PostgresLink?
    private var plansUntil: Deadline?
    private var planLifetime = Duration.zero
    private let connected = Atomic<Bool>(false)

    init(connector: PostgresConnector, breaker: ConnectBreaker) {
        self.connector = connector
        self.breaker = breaker
    }

    nonisolated var isConnected: Bool { connected.load(ordering: .relaxed) }

    /// Runs `body` on this slot's thread and closes the connection if it cannot be used again.
    func perform<R: Sendable>(
        deadline: Deadline?, isBounded: Bool, _ body: @Sendable (PostgresSession) throws -> R
    ) throws -> R {
        let link = try healthyLink(deadline: deadline)
        let configuration = connector.configuration
        let session = PostgresSession(
            link: link, deadline: deadline, latestEnd: isBounded ? .after(configuration.queueTimeout) : nil,
            operationTimeout: configuration.operationTimeout)
        defer {
            session.close()
            if session.isDiscarded || !link.isIdle { close() }
        }
        if let longest = configuration.planLifetime { try replan(session, after: longest) }
        return try body(session)
    }

    /// Plans live twice as long each time: tables are smallest, and grow fastest, when the first plans are made.
    private func replan(_ session: PostgresSession, after longest: Duration) throws {
        guard plansUntil?.isPast ?? true else { return }
        if plansUntil != nil { try session.discardPlans() }
        planLifetime = min(plansUntil == nil ? .seconds(1) : planLifetime * 2, longest)
        plansUntil = .after(planLifetime)
    }

    func close() {
        link = nil
        plansUntil = nil
        connected.store(false, ordering: .relaxed)
    }

    private func healthyLink(deadline: Deadline?) throws(PostgresError) -> PostgresLink {
        if let link, link.isHealthy(), !link.expiry.isPast { return link }
        close()
        try breaker.check()
        do throws(PostgresError) {
            let fresh = try connector.connect(deadline: deadline)
            breaker.noteSuccess()
            link = fresh
            connected.store(true, ordering: .relaxed)
            return fresh
        } catch {
            breaker.note(error)
            throw error
        }
    }
}

/// While connecting fails, it makes one attempt per interval, and all other callers get the error at once: callers do not hang, and a
/// database that comes up is not stormed.
final class ConnectBreaker: Sendable {
    private struct State {
        var error: PostgresError?
        var failures = 0
        var nextAttempt: Deadline?
    }

    private static let attemptBound = Duration.seconds(10)

    private let state = Mutex(State())

    /// - Throws: the last failure while the next attempt is not due.
    func check() throws(PostgresError) {
        let refusal: PostgresError? = state.withLock { state in
            guard let error = state.error, let next = state.nextAttempt else { return nil }
            guard next.isPast else { return error }
            // This caller tries; no other does until it has a result, or has tried for too long.
            state.nextAttempt = .after(Self.attemptBound)
            return nil
        }
        if let refusal { throw refusal }
    }

    func noteSuccess() {
        state.withLock { $0 = State() }
    }

    /// The pause doubles from 50 ms to 1 s, half of it at random.
    func note(_ error: PostgresError) {
        state.withLock { state in
            let ceiling = min(1000, 50 << min(state.failures, 5))
            state.failures += 1
            state.error = error
            state.nextAttempt = .after(.milliseconds(Int.random(in: ceiling / 2...ceiling)))
        }
    }
}
