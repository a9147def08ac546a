import Postgres
import Synchronization

/// Refuses requests at once when more are in progress, or wait for the database, than can be answered soon. Admitted requests stay fast,
/// and callers learn early that they should come back.
final class LoadShedding: Sendable {
    enum Reason: String, Sendable, CaseIterable {
        case requests, database, streams, uploads
    }

    private let limits: RequestLimits
    private let pool: PostgresPool
    private let count = Atomic<Int>(0)

    init(limits: RequestLimits, pool: PostgresPool) {
        self.limits = limits
        self.pool = pool
    }

    /// Requests in progress.
    var requestsInProgress: Int { count.load(ordering: .relaxed) }

    /// Counts a request in; ``end()`` must follow.
    /// - Returns: Why it is refused; it is not counted then.
    func begin() -> Reason? {
        let others = count.add(1, ordering: .relaxed).oldValue
        if let reason = reason(others) {
            end()
            return reason
        }
        return nil
    }

    func end() { count.subtract(1, ordering: .relaxed) }

    /// Asks the pool only when there are more requests than connections: with fewer, no request waits.
    private func reason(_ others: Int) -> Reason? {
        if others >= limits.concurrentRequests { return .requests }
        if others > pool.configuration.poolSize, pool.gauges.waiting >= limits.waitingForDatabase { return .database }
        return nil
    }
}
