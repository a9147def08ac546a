internal import Dispatch
internal import Synchronization

/// A bounded number of connections, opened when needed. Callers that find none free wait for a bounded time, in queues that take turns
/// (``queue``).
///
/// Connections are checked when taken and when given back, replaced when old, and never used again after a doubtful end.
package final class PostgresPool: Sendable {
    typealias State = PoolState<ConnectionSlot, CheckedContinuation<ConnectionSlot, any Error>>

    /// The queue in which the callers of this task wait for a connection. The queues take turns, and callers of one queue get connections
    /// in order of arrival: for each caller ahead in its own queue, and for itself, a caller waits for at most one of every other queue.
    /// But a queue whose callers hold half of the connections gets none while another one waits, and a named one never all of four or more.
    ///
    /// A caller of a named queue without a deadline of its own has its connection for as long as four statements may take.
    @TaskLocal package static var queue: String = ""

    package let configuration: PostgresConfiguration
    let state: Mutex<State>
    private let connector: PostgresConnector
    private let breaker = ConnectBreaker()
    private let lastSuccess = Mutex<ContinuousClock.Instant?>(nil)
    private let drained = DrainSignal()

    /// Opens nothing yet.
    package init(_ configuration: PostgresConfiguration) {
        self.configuration = configuration
        connector = PostgresConnector(configuration: configuration)
        state = Mutex(State(size: max(1, configuration.poolSize)))
    }

    /// Runs `body` in a transaction, on the connection's own thread, synchronously: its statements block that thread only, never the
    /// cooperative pool. BEGIN is sent with the first statement.
    ///
    /// After a serialization failure or deadlock the whole body runs again, at most five times, with jitter: it must have no effect but its
    /// statements.
    /// - Parameter deadline: The limit for everything, waiting for a connection and running again included. Without one, each operation is
    ///   bounded by the configuration. For a statement that needs longer than `statementTimeout`, also `SELECT
    ///   set_config('statement_timeout', …, true)`.
    /// - Throws: The error of `body`, or ``PostgresError``.
    @discardableResult
    package func transaction<R: Sendable>(
        isolation: TransactionIsolation = .readCommitted, deadline: Duration? = nil,
        _ body: @escaping @Sendable (PostgresSession) throws -> R
    ) async throws -> R {
        try await withSlot(deadline: deadline) { session in try session.retryingTransaction(isolation: isolation, body) }
    }

    /// Runs `body` outside a transaction, on the connection's own thread: each statement or pipeline commits by itself.
    @discardableResult
    package func session<R: Sendable>(
        deadline: Duration? = nil, _ body: @escaping @Sendable (PostgresSession) throws -> R
    ) async throws -> R {
        try await withSlot(deadline: deadline, body)
    }

    /// Whether the database answers within a second. A pool that is merely busy is healthy as long as answers come.
    package func isHealthy() async -> Bool {
        do {
            return try await session(deadline: .seconds(1)) { session in try !session.execute("SELECT 1").isEmpty }
        } catch let error as PostgresError where error.code == .poolExhausted {
            return lastSuccess.withLock { $0 }.map { $0.duration(to: .now) < .seconds(3) } ?? false
        } catch {
            return false
        }
    }

    /// Refuses new and waiting callers, lets those that have a connection finish, and closes everything.
    package func close() async {
        let (idle, waiters) = state.withLock { $0.close() }
        for waiter in waiters { waiter.resume(throwing: Self.closed) }
        for slot in idle { await slot.close() }
        if state.withLock({ $0.isDrained }) { drained.signal() }
        await drained.wait()
    }

    package struct Gauges: Equatable, Sendable {
        package var idle: Int
        package var busy: Int
        package var waiting: Int

        package init(idle: Int, busy: Int, waiting: Int) {
            self.idle = idle
            self.busy = busy
            self.waiting = waiting
        }
    }

    /// Whether a caller waits for a connection of another queue's. One whose queue has its share waits for one of its own queue's.
    package var isContended: Bool { state.withLock { $0.isContended } }

    package var gauges: Gauges {
        state.withLock { Gauges(idle: $0.idleCount, busy: $0.busyCount, waiting: $0.waitingCount) }
    }
}

extension PostgresPool {
    private static let closed = PostgresError(.closed, operation: "check-out", message: "the connection pool is closed")

    private func withSlot<R: Sendable>(
        deadline: Duration?, _ body: @escaping @Sendable (PostgresSession) throws -> R
    ) async throws -> R {
        let end = deadline.map(Deadline.after)
        let queue = Self.queue
        let slot = try await checkOut(in: queue, deadline: end)
        let result: R
        do {
            result = try await slot.perform(deadline: end, isBounded: !queue.isEmpty, body)
        } catch {
            await giveBack(slot, from: queue)
            throw error
        }
        await giveBack(slot, from: queue)
        lastSuccess.withLock { $0 = .now }
        return result
    }

    private func checkOut(in queue: String, deadline: Deadline?) async throws -> ConnectionSlot {
        try Task.checkCancellation()
        switch state.withLock({ $0.take(in: queue) }) {
        case .use(let slot): return slot
        case .create: return newSlot()
        case .refuse: throw Self.closed
        case .wait: return try await waitForSlot(in: queue, deadline: deadline)
        }
    }

    private func newSlot() -> ConnectionSlot { ConnectionSlot(connector: connector, breaker: breaker) }

    private func waitForSlot(in queue: String, deadline: Deadline?) async throws -> ConnectionSlot {
        let patience = min(configuration.checkOutTimeout, deadline?.remaining ?? configuration.checkOutTimeout)
        let ticket = Mutex<UInt64?>(nil)
        return try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                // A slot may have become free since.
                let (action, id) = state.withLock { state in
                    let action = state.take(in: queue)
                    guard case .wait = action else { return (action, UInt64?.none) }
                    return (action, state.enqueue(continuation, in: queue))
                }
                switch action {
                case .use(let slot): continuation.resume(returning: slot)
                case .create: continuation.resume(returning: newSlot())
                case .refuse: continuation.resume(throwing: Self.closed)
                case .wait:
                    guard let id else { return }
                    ticket.withLock { $0 = id }
                    if Task.isCancelled { withdraw(id, from: queue, CancellationError()) }
                    DispatchQueue.global().asyncAfter(deadline: .now() + .milliseconds(patience.milliseconds(rounding: .up))) {
                        [weak self] in
                        self?.withdraw(id, from: queue, Self.exhausted(patience))
                    }
                }
            }
        } onCancel: {
            if let id = ticket.withLock({ $0 }) { withdraw(id, from: queue, CancellationError()) }
        }
    }

    private static func exhausted(_ patience: Duration) -> PostgresError {
        PostgresError(
            .poolExhausted, operation: "check-out",
            message: "no connection became free within \(patience.milliseconds(rounding: .down)) ms")
    }

    /// Ends a wait, if it still lasts.
    private func withdraw(_ id: UInt64, from queue: String, _ reason: any Error) {
        state.withLock { $0.withdraw(id, from: queue) }?.resume(throwing: reason)
    }

    private func giveBack(_ slot: ConnectionSlot, from queue: String) async {
        switch state.withLock({ $0.give(slot, from: queue, isConnected: slot.isConnected) }) {
        case .keep: return
        case .resume(let waiter): waiter.resume(returning: slot)
        case .close:
            await slot.close()
            if state.withLock({ $0.isDrained }) { drained.signal() }
        }
    }
}

/// Lets any number of tasks wait for an event that happens once.
final class DrainSignal: Sendable {
    private enum State {
        case waiting([CheckedContinuation<Void, Never>])
        case done
    }

    private let state = Mutex(State.waiting([]))

    func signal() {
        let waiters = state.withLock { state -> [CheckedContinuation<Void, Never>] in
            guard case .waiting(let waiters) = state else { return [] }
            state = .done
            return waiters
        }
        for waiter in waiters { waiter.resume() }
    }

    func wait() async {
        await withCheckedContinuation { continuation in
            let isDone = state.withLock { state in
                guard case .waiting(let waiters) = state else { return true }
                state = .waiting(waiters + [continuation])
                return false
            }
            if isDone { continuation.resume() }
        }
    }
}
