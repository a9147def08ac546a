package import Logging
package import Postgres
import PushModel
import ServiceLifecycle

/// The background work on old rows: stale installations, sweeps and retention. One process of the fleet at a time does it, in small steps with
/// pauses in between, so that it takes at most a fifth of one connection's time from the foreground.
package final class Housekeeper: Service {
    package struct Terms: Sendable {
        /// From the end of one round to the next, over the whole fleet.
        package var interval: Duration
        package var historyDays: Int
        package var retiredTokenDays: Int
        package var receiptDays: Int
        package var webhookDays = 7

        package init(interval: Duration, historyDays: Int, retiredTokenDays: Int, receiptDays: Int) {
            self.interval = interval
            self.historyDays = historyDays
            self.retiredTokenDays = retiredTokenDays
            self.receiptDays = receiptDays
        }
    }

    /// How a round ended that was this process's to its end; the metric's dimension.
    enum RoundResult: String {
        case finished, failed
    }

    private static let start = PushID(high: 0, low: 0)

    private let pool: PostgresPool
    private let apps: AppStore
    private let fences: FencePublisher
    private let terms: Terms
    private let metrics: TokenServiceMetrics
    private let logger: Logger

    package init(
        pool: PostgresPool, apps: AppStore, fences: FencePublisher, terms: Terms, metrics: TokenServiceMetrics, logger: Logger
    ) {
        self.pool = pool
        self.apps = apps
        self.fences = fences
        self.terms = terms
        self.metrics = metrics
        self.logger = logger
    }

    package func run() async throws {
        // Processes that start together do not ask together.
        let pause = min(terms.interval, .seconds(60))
        await cancelWhenGracefulShutdown {
            while await Pause.of(pause * Double.random(in: 0.5...1)) { await self.round() }
        }
    }

    private func round() async {
        let lease = HousekeepingLease()
        do {
            guard try await pool.session({ session in try lease.take(in: session) }) else { return }
            try await keepStale(lease)
            try await keepRetention(lease)
            let seconds = terms.interval / .seconds(1)
            try await pool.session { session in try lease.release(after: seconds, in: session) }
            metrics.housekeepingRound(.finished)
        } catch is CancellationError {
            return await letGo(lease)
        } catch is LeaseLost {
            logger.info("Another process took the housekeeping over")
        } catch {
            metrics.housekeepingRound(.failed)
            logger.failed("The housekeeping could not finish its round", error)
            await letGo(lease)
        }
    }

    /// So that another process need not wait for the lease to run out. In a task of its own: at shutdown this one is cancelled.
    private func letGo(_ lease: HousekeepingLease) async {
        let pool = pool
        do {
            try await Task { try await pool.session { session in try lease.release(after: 5, in: session) } }.value
        } catch {
            logger.info("The housekeeping's lease runs out by itself", metadata: [LogKey.error: "\(String(describing: error))"])
        }
    }

    /// One transaction under the lease, what has to follow it at once, then a pause of four times their length.
    private func step<R: Sendable>(
        _ lease: HousekeepingLease, _ body: @escaping @Sendable (PostgresSession) throws -> R, then committed: (R) async -> Void = { _ in }
    ) async throws -> R {
        let start = ContinuousClock.now
        let result = try await pool.transaction { session in
            try lease.renew(in: session)
            return try body(session)
        }
        await committed(result)
        guard await Pause.of((ContinuousClock.now - start) * 4) else { throw CancellationError() }
        return result
    }
}

extension Housekeeper {
    private func keepStale(_ lease: HousekeepingLease) async throws {
        var (flagged, removed) = (0, 0)
        for app in try await apps.all() {
            var cursor = Self.start
            while true {
                let from = cursor
                let page = try await step(lease) { session in try StaleInstallations(session: session, app: app).flag(after: from) }
                metrics.flaggedStale(page.flagged)
                flagged += page.flagged
                removed += try await remove(page.removable, of: app, lease)
                guard let last = page.last else { break }
                cursor = last
            }
        }
        guard flagged > 0 || removed > 0 else { return }
        logger.info("Stale installations", metadata: [LogKey.flagged: "\(flagged)", LogKey.removed: "\(removed)"])
    }

    private func remove(_ installations: [PushID], of app: App, _ lease: HousekeepingLease) async throws -> Int {
        var removed = 0
        for start in stride(from: 0, to: installations.count, by: StaleInstallations.removalBatch) {
            let batch = Array(installations[start..<min(start + StaleInstallations.removalBatch, installations.count)])
            let removal = try await step(lease) { session in
                try StaleInstallations(session: session, app: app).remove(batch)
            } then: { removal in
                metrics.removedStale(removal.removed)
                // What the broker does not confirm now, the relay publishes.
                _ = await fences.publish(removal.fences)
            }
            removed += removal.removed
        }
        return removed
    }

    private func keepRetention(_ lease: HousekeepingLease) async throws {
        for sweep in Sweep.all { try await remove(sweep.kind, Sweep.batch, lease) { try Retention(session: $0).sweep(sweep, limit: $1) } }
        let terms = terms
        let messages = Sweep.webhookMessages(days: terms.webhookDays)
        try await remove(.webhookMessages, Sweep.batch, lease) { try Retention(session: $0).sweep(messages, limit: $1) }
        try await remove(.history, Retention.historyBatch, lease) {
            try Retention(session: $0).removeHistory(olderThan: terms.historyDays, limit: $1)
        }
        try await removeNotifications(lease)
        try await remove(.tokens, Retention.tokenBatch, lease) {
            try Retention(session: $0).removeTokens(olderThan: terms.retiredTokenDays, limit: $1)
        }
    }

    /// A step that takes longer than a statement may is tried with fewer rows.
    private func remove(
        _ kind: Retention.Kind, _ rows: Int64, _ lease: HousekeepingLease,
        _ body: @escaping @Sendable (PostgresSession, _ limit: Int64) throws -> Retention.Step
    ) async throws {
        var (total, limit, isDone) = (0, rows, false)
        while !isDone {
            do {
                let done = try await step(lease) { [limit] session in try body(session, limit) }
                metrics.retentionRemoved(kind, done.removed)
                total += done.removed
                isDone = done.isDone
            } catch {
                guard Refusal(error) == .size, limit > 1 else { throw error }
                limit = max(1, limit / 16)
            }
        }
        report(kind, total)
    }

    private func removeNotifications(_ lease: HousekeepingLease) async throws {
        let days = terms.receiptDays
        var total = 0
        var cursor: PushID? = Self.start
        while let from = cursor {
            let page = try await step(lease) { session in
                try Retention(session: session).finishedNotifications(olderThan: days, after: from)
            }
            cursor = page.last
            var isDone = page.finished.isEmpty
            while !isDone {
                let finished = page.finished
                let count = try await step(lease) { session in try ReceiptRemoval(session: session).removeBatch(of: finished) }
                metrics.retentionRemoved(.notifications, count.notifications)
                total += count.notifications
                isDone = count.isDone
            }
        }
        report(.notifications, total)
    }

    private func report(_ kind: Retention.Kind, _ number: Int) {
        guard number > 0 else { return }
        logger.info("Retention is over", metadata: [LogKey.reason: "\(kind.rawValue)", LogKey.count: "\(number)"])
    }
}
