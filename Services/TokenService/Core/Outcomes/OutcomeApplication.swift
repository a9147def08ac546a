package import Postgres
package import PushModel

/// Applies outcome events to the database: one transaction per batch, and the same events again change nothing (DESIGN.md section 6).
package struct OutcomeApplication: Sendable {
    private let pool: PostgresPool

    package init(pool: PostgresPool) { self.pool = pool }

    /// What a batch changed.
    package struct Effect: Equatable, Sendable {
        /// Deliveries that got their final outcome now, by class.
        package var finished: [OutcomeClass: Int] = [:]
        /// Final outcomes of deliveries that had theirs already, or that nobody knows.
        package var repeated = 0
        package var completedNotifications = 0
        package var retiredGone = 0
        package var retiredRejected = 0
        package var throttledInstallations = 0
        /// Apps whose brake is engaged: their rejected tokens were left alone.
        package var braked: [Int64] = []
    }

    package func apply(_ batch: OutcomeBatch) async throws -> Effect {
        guard !batch.isEmpty else { return Effect() }
        return try await pool.transaction { session in try Self.apply(batch, in: OutcomeStore(session: session)) }
    }

    /// Rows are locked in one order everywhere: deliveries, notifications, installations, tokens; each in ascending order of id.
    private static func apply(_ batch: OutcomeBatch, in store: OutcomeStore) throws -> Effect {
        try store.lockDeliveries(of: batch)
        try store.noteAttempts(batch.attempts)
        let finished = try store.finish(batch.final)

        var effect = Effect()
        effect.repeated = batch.toldFinal - finished.count
        for delivery in finished { effect.finished[delivery.outcome, default: 0] += 1 }
        effect.completedNotifications = try store.settleNotifications(finished)
        effect.throttledInstallations = try store.throttle(batch.throttled)
        let brakes = try store.count(finished)
        effect.braked = brakes.filter { $0.value.isEngaged }.map(\.key).sorted()
        (effect.retiredGone, effect.retiredRejected) = try retire(finished, batch: batch, braked: Set(effect.braked), in: store)
        return effect
    }

    /// Only these two classes speak of the token. Everything else, our own faults above all, never touches it.
    private static func retire(
        _ finished: [OutcomeStore.Finished], batch: OutcomeBatch, braked: Set<Int64>, in store: OutcomeStore
    ) throws -> (gone: Int, rejected: Int) {
        let entries = Dictionary(uniqueKeysWithValues: batch.final.map { ($0.delivery.id, $0) })
        var gone: [OutcomeStore.Retirement] = []
        var rejected: [OutcomeStore.Retirement] = []
        for delivery in finished {
            guard let entry = entries[delivery.id] else { continue }
            switch delivery.outcome {
            case .tokenGone:
                if let since = entry.goneSince { gone.append(.init(token: delivery.token, notRegisteredAfter: since)) }
            case .tokenRejected:
                // Rejected was what we sent; what was registered since is another matter, as with a 410.
                if !braked.contains(delivery.app) {
                    rejected.append(.init(token: delivery.token, notRegisteredAfter: entry.delivery.sentAt ?? entry.time))
                }
            default: break
            }
        }
        try store.lockTokens((gone + rejected).map(\.token))
        return (try store.retire(gone, reason: .gone), try store.retire(rejected, reason: .rejected))
    }
}
