package import Configuration
package import Logging
package import Observability
package import Postgres
import PushModel
import ServiceLifecycle
package import TokenServiceApps
import TokenServiceKit
package import TokenServiceRegistry
import TokenServiceSending

/// The background work on old rows: partitions, stale installations, sweeps and retention. One process of the fleet at a time does it, in
/// small steps with pauses in between, so that it takes at most a fifth of one connection's time from the foreground.
package final class Housekeeper: Service {
    package struct Settings: Sendable {
        /// The time from the end of one round to the start of the next, in the whole fleet, unless ``staleSteps`` left installations.
        package var interval: Duration
        package var historyDays: Int
        package var retiredTokenDays: Int
        package var receiptDays: Int
        package var webhookDays: Int
        /// Steps with stale installations in one round; with their pauses they take some minutes. A removal may take days: if installations
        /// are left, the next round follows at once, and goes on with them after partitions and retention.
        package var staleSteps = 1000
    }

    /// How a round of this process ended; the metric's dimension.
    enum RoundResult: String, CaseIterable {
        case finished, failed
    }

    private static let start = PushID(high: 0, low: 0)

    let pool: PostgresPool
    private let apps: AppStore
    private let fences: FencePublisher
    let settings: Settings
    let partitions = PartitionWatch()
    private let lease: Lease
    private let metrics: HousekeepingMetrics
    let logger: Logger

    package init(
        pool: PostgresPool, apps: AppStore, fences: FencePublisher, settings: Settings, metrics: HousekeepingMetrics, logger: Logger
    ) {
        self.pool = pool
        self.apps = apps
        self.fences = fences
        self.settings = settings
        lease = Lease("housekeeping", seconds: 60, longestPause: settings.interval)
        self.metrics = metrics
        self.logger = logger
        metrics.observe(partitions)
    }

    package func run() async throws {
        // Spreads processes that start together, so that they do not ask at the same time.
        let pause = min(settings.interval, .seconds(60))
        await cancelWhenGracefulShutdown {
            // A process that starts alone after a long time may find no partition for new rows.
            await self.makePartitions()
            // This server may be another one than yesterday's.
            await self.refreshTimeZones()
            var place: StalePlace?
            while await Pause.of(pause * Double.random(in: 0.5...1)) {
                repeat { await self.lookAtPartitions() } while await self.round(from: &place)
            }
        }
    }

    /// Any process may do so at any time.
    private func refreshTimeZones() async {
        do {
            let changed = try await pool.session { session in try TimeZones.refresh(in: session) }
            if changed > 0 { logger.notice("The database knows other time zones than before", metadata: [LogKey.count: "\(changed)"]) }
        } catch {
            logger.failed("The time zones could not be read", error)
        }
    }

    /// - Parameter place: Where to go on with stale installations.
    /// - Returns: whether stale installations are left. The lease is kept for the next round then.
    private func round(from place: inout StalePlace?) async -> Bool {
        do {
            guard try await pool.session({ [lease] session in try lease.take(in: session) }) else { return false }
            try await pool.session { session in try ClocksDiffer.check(in: session) }
            await makePartitions()
            await refreshTimeZones()
            try await dropPartitions()
            var attempts = Attempts()
            try await attempts.make { try await removeExpired() }
            // Last: it may take more than one round.
            try await attempts.make { try await handleStaleInstallations(from: &place) }
            try attempts.end()
            metrics.housekeepingRound(.finished)
            if place != nil { return true }
            await lease.release(after: settings.interval, in: pool, logger: logger)
        } catch is LeaseLost {
            logger.info("Another process has taken the housekeeping over")
        } catch {
            if !(error is CancellationError) {
                metrics.housekeepingRound(.failed)
                logger.failed("The housekeeping could not finish its round", error)
            }
            await lease.release(after: .seconds(5), in: pool, logger: logger)
        }
        return false
    }

    func renewLease() async throws {
        try await pool.session { [lease] session in try lease.renew(in: session) }
    }

    /// One transaction under the lease, its follow-up work, then a pause.
    private func step<R: Sendable>(
        _ body: @escaping @Sendable (PostgresSession) throws -> R, then committed: (R) async -> Void = { _ in }
    ) async throws -> R {
        try await Self.paced {
            let result = try await pool.registryTransaction { [lease] session in
                try lease.renew(in: session)
                try ClocksDiffer.check(in: session)
                return try body(session)
            }
            await committed(result)
            return result
        }
    }

    /// Works, then pauses four times as long, also after an error: a statement that was ended has used its whole limit, and is tried again.
    /// - Parameter pause: Returns false where the task was cancelled meanwhile.
    static func paced<R: Sendable>(
        pause: (Duration) async -> Bool = { await Pause.of($0) }, _ work: () async throws -> R
    ) async throws -> R {
        let start = ContinuousClock.now
        let result: Result<R, any Error>
        do { result = .success(try await work()) } catch { result = .failure(error) }
        guard await pause((ContinuousClock.now - start) * 4) else { throw CancellationError() }
        return try result.get()
    }
}

extension Housekeeper {
    /// Pieces of work of which one that fails, such as one that meets a damaged row, keeps no later one from being done.
    private struct Attempts {
        private var firstError: (any Error)?

        /// - Throws: An error that all others would meet, too.
        mutating func make(_ work: () async throws -> Void) async throws {
            do { try await work() } catch {
                if error is LeaseLost || error is ClocksDiffer || Refusal(error) == .outage { throw error }
                firstError = firstError ?? error
            }
        }

        /// - Throws: The first error of one that failed.
        func end() throws { if let firstError { throw firstError } }
    }

    /// Where a round leaves the stale installations to the next one.
    private struct StalePlace {
        var app: App.ID
        /// The last installation that it looked at.
        var cursor: PushID
    }

    /// Looks at the apps' installations in the order of ids.
    /// - Parameter place: Where to begin; nil: at the first app. Then where the next round goes on; nil if this one came to the end. An
    ///   outage leaves it as it was.
    private func handleStaleInstallations(from place: inout StalePlace?) async throws {
        let begin = place ?? StalePlace(app: 0, cursor: Self.start)
        var next: StalePlace?
        var attempts = Attempts()
        var steps = settings.staleSteps
        for app in try await apps.all().sorted(by: { $0.id < $1.id }) where app.id >= begin.app {
            let cursor = app.id == begin.app ? begin.cursor : Self.start
            try await attempts.make { next = try await handleStaleInstallations(of: app, after: cursor, steps: &steps) }
            if next != nil { break }
        }
        place = next
        try attempts.end()
    }

    /// - Parameter steps: How many are left to this round. A page that is begun is finished.
    /// - Returns: where to go on when no step is left; nil if the app's installations are done.
    private func handleStaleInstallations(of app: App, after cursor: PushID, steps: inout Int) async throws -> StalePlace? {
        var (flagged, removed, place) = (0, 0, StalePlace(app: app.id, cursor: cursor))
        var isDone = false
        while !isDone, steps > 0 {
            let from = place.cursor
            let page = try await step { session in try StaleInstallations(session: session, app: app).flag(after: from) }
            metrics.flaggedStale(page.flagged)
            flagged += page.flagged
            removed += try await remove(page.removable, of: app)
            steps -= 1 + (page.removable.count + StaleInstallations.removalBatch - 1) / StaleInstallations.removalBatch
            isDone = page.last == nil
            place.cursor = page.last ?? from
        }
        if flagged > 0 || removed > 0 {
            logger.info(
                "Stale installations",
                metadata: [LogKey.app: "\(app.slug.text)", LogKey.flagged: "\(flagged)", LogKey.removed: "\(removed)"])
        }
        return isDone ? nil : place
    }

    private func remove(_ installations: [PushID], of app: App) async throws -> Int {
        var removed = 0
        for start in stride(from: 0, to: installations.count, by: StaleInstallations.removalBatch) {
            let batch = Array(installations[start..<min(start + StaleInstallations.removalBatch, installations.count)])
            let removal = try await step { session in
                try StaleInstallations(session: session, app: app).remove(batch)
            } then: { removal in
                metrics.removedStale(removal.installations.count)
                // The relay publishes fences that the broker does not confirm now.
                _ = await fences.publish(removal.fences)
            }
            removed += removal.installations.count
        }
        return removed
    }

    private func removeExpired() async throws {
        var attempts = Attempts()
        let days = settings.webhookDays
        for sweep in Sweep.all + [.unreadEvents(days: days), .webhookMessages(days: days), .holds(days: settings.historyDays)] {
            try await attempts.make {
                try await remove(sweep.kind, Sweep.batch) { try Retention(session: $0).sweep(sweep, limit: $1, from: $2) }
            }
        }
        try await attempts.make {
            try await remove(.activityTokens, Retention.tokenBatch) { try Retention(session: $0).retireActivityTokens(limit: $1, from: $2) }
        }
        try await attempts.make {
            try await remove(.doubtfulTokens, Retention.tokenBatch) { try Retention(session: $0).probeDoubtfulTokens(limit: $1, from: $2) }
        }
        let tokenDays = settings.retiredTokenDays
        try await attempts.make {
            try await remove(.tokens, Retention.tokenBatch) {
                try Retention(session: $0).removeTokens(olderThan: tokenDays, limit: $1, from: $2)
            }
        }
        try attempts.end()
    }

    /// Tries a step that takes longer than a statement may again with fewer rows.
    private func remove(
        _ kind: Retention.Kind, _ rows: Int,
        _ body: @escaping @Sendable (PostgresSession, _ limit: Int, _ from: Int64) throws -> Retention.Step
    ) async throws {
        var (total, limit, from, isDone) = (0, rows, Int64(0), false)
        while !isDone {
            do {
                let done = try await step { [limit, from] session in try body(session, limit, from) }
                metrics.retentionRemoved(kind, done.removed)
                total += done.removed
                isDone = done.isDone
                from = done.last ?? from
            } catch {
                guard Refusal(error) == .size, limit > 1 else { throw error }
                limit = max(1, limit / 16)
            }
        }
        report(kind, total)
    }

    private func report(_ kind: Retention.Kind, _ number: Int) {
        guard number > 0 else { return }
        let metadata: Logger.Metadata = [LogKey.reason: "\(kind.rawValue)", LogKey.count: "\(number)"]
        guard kind == .unreadEvents else { return logger.info("Retention is over", metadata: metadata) }
        logger.error("State changes of notifications are lost: no reader took them before their retention was over", metadata: metadata)
    }
}

extension Housekeeper.Settings {
    package init(_ config: ConfigReader, webhookDays: Int) throws {
        self.init(
            interval: try config.read(Self.interval), historyDays: try config.read(Self.historyDays),
            retiredTokenDays: try config.read(Self.retiredTokenDays), receiptDays: try config.read(Self.receiptDays),
            webhookDays: webhookDays)
    }

    package static let all: [any DocumentedSetting] = [interval, historyDays, retiredTokenDays, receiptDays]

    private static let interval = Setting.seconds(
        "housekeeping.interval.seconds", 3600, in: 1...86_400,
        "from one round of stale installations and retention to the next, over the whole fleet, unless stale installations are left")
    private static let historyDays = Setting(
        "history.retention.days", 90, in: 1...3650,
        "how long the history of installations, the audit trail and ended holds are kept at least; all but holds go in periods of an "
            + "eighth of it")
    private static let retiredTokenDays = Setting(
        "retired.token.retention.days", 90, in: 1...3650, "how long retired and quarantined tokens are kept")
    private static let receiptDays = Setting(
        "receipt.retention.days", 30, in: 1...3650,
        "how long notifications that are over are kept at least with their receipts; they go in periods of an eighth of it")
}

/// Makes partitions ahead of time and drops those whose retention is over. If that fails, the round goes on: rows without a period have a
/// partition of their own, and the gauges of ``PartitionWatch`` raise the alarm.
extension Housekeeper {
    /// Any process may do so at any time.
    func makePartitions() async {
        for family in PartitionFamily.allCases {
            await change(family, "Partitions could not be made") { [days = settings.periodDays(of: family)] store in
                try store.makeNext(family, days: days)
            } then: { made in
                logger.info("Made partitions", metadata: [LogKey.partitions: "\(made.joined(separator: " "))"])
            }
        }
        await lookAtPartitions()
        for family in PartitionFamily.allCases {
            guard let state = partitions[family], state.ahead(now: UnixTime.milliseconds()) < 86_400 / 2 else { continue }
            logger.warning("No partition lies ahead", metadata: [LogKey.table: "\(family.rawValue)"])
        }
    }

    /// - Throws: ``LeaseLost``, `CancellationError`.
    func dropPartitions() async throws {
        for family in PartitionFamily.allCases {
            try await renewLease()
            await change(family, "Partitions could not be dropped") { [days = settings.retentionDays(of: family)] store in
                try store.dropNext(family, retentionDays: days)
            } then: { dropped in
                logger.info("Dropped a partition", metadata: [LogKey.partitions: "\(dropped.joined(separator: " "))"])
            }
        }
    }

    func lookAtPartitions() async {
        do {
            let states = try await pool.session { [settings] session in
                try PartitionStore(session: session).states { settings.retentionDays(of: $0) }
            }
            partitions.saw(states)
        } catch {
            guard !(error is CancellationError) else { return }
            logger.failed("The partitions could not be looked at", error)
        }
    }

    /// Changes partitions until there is nothing left to change. Each change is a transaction that may wait for tables' locks, with pauses
    /// in which callers go on: that takes far longer than a caller's statement may.
    private func change(
        _ family: PartitionFamily, _ failure: Logger.Message, _ body: @escaping @Sendable (PartitionStore) throws -> [String],
        then: ([String]) -> Void
    ) async {
        do {
            while true {
                let changed = try await pool.transaction(deadline: .seconds(60)) { session in
                    try ClocksDiffer.check(in: session)
                    try session.execute("SELECT set_config('statement_timeout', '50s', true)")
                    return try body(PartitionStore(session: session))
                }
                guard !changed.isEmpty else { return }
                then(changed)
            }
        } catch let error as PostgresError where error.isOfSize {
            logger.info(
                "A table is in use: its partitions are changed in a later round",
                metadata: [LogKey.table: "\(family.rawValue)", LogKey.error: "\(error)"])
        } catch {
            guard !(error is CancellationError) else { return }
            logger.failed(failure, error, [LogKey.table: "\(family.rawValue)"])
        }
    }
}
