package import Logging
package import Postgres
import PushModel
import ServiceLifecycle
import Synchronization

/// Writes down, in batches, what became of publishing: published, or free for the relay. Keeps the leases of jobs that are under way.
///
/// A confirm that is lost here, because the process dies, costs a second job for the same deliveries; never a lost one.
package final class PublishSettlements: Service {
    private let pool: PostgresPool
    private let lease: Duration
    private let backlog: PublishBacklog
    private let metrics: TokenServiceMetrics
    private let logger: Logger
    /// Between one writing and the next where no caller waits: many share a statement and its commit. Leases are far longer, and the
    /// relay leaves young fences alone.
    private static let pause = Duration.milliseconds(50)
    /// Settlements of one transaction: far below what a statement has time for.
    static let maximumBatch = 1000
    /// How often a shutdown tries what the database did not take; then the leases run out, and a relay publishes it again.
    private static let lastAttempts = 5

    private let awaited = BatchQueue<Settlement>()
    private let jobs = BatchQueue<Settlement>()
    private let fences = BatchQueue<Settlement>()
    /// What the database did not take alone, because a row is locked: tried again beside the others.
    private let later = BatchQueue<Settlement>()
    private let underWay = Mutex<Set<JobID>>([])
    /// There is room for more, where there was none: otherwise whoever looks finds what waits at once, and each look costs the database as
    /// much as publishing hundreds of deliveries.
    private let onSettled: @Sendable () -> Void

    package init(
        pool: PostgresPool, lease: Duration, backlog: PublishBacklog, metrics: TokenServiceMetrics, logger: Logger,
        onSettled: @escaping @Sendable () -> Void
    ) {
        self.pool = pool
        self.lease = lease
        self.backlog = backlog
        self.metrics = metrics
        self.logger = logger
        self.onSettled = onSettled
    }

    /// Jobs that were handed to the broker and are not written down yet.
    package var underWayCount: Int { underWay.withLock { $0.count } }

    func began(_ jobs: [JobID]) { underWay.withLock { $0.formUnion(jobs) } }

    /// - Parameter written: Resumed once all of them are written down, or cannot be.
    func ended(_ jobs: [PublishedJob], written: CheckedContinuation<Void, Never>?) {
        let reply = written.map { JobsReply(jobs: jobs.count, $0) }
        (reply == nil ? self.jobs : awaited).put(contentsOf: jobs.map { .job($0, reply: reply) })
    }
    /// A fan-out has come to its end: the notification itself waits no longer.
    func fannedOut() {
        backlog.shrank(by: 1)
        metrics.published(1)
    }
    func published(fences ids: [Int64]) { if !ids.isEmpty { fences.put(contentsOf: ids.map { .fence($0) }) } }

    /// To be shut down after the publisher, so that the last confirms are written down.
    package func run() async throws {
        await withGracefulShutdownHandler {
            await withTaskGroup(of: Void.self) { group in
                group.addTask { await self.renewLeases() }
                group.addTask { await self.tryLater() }
                async let fencesWritten: Void = write(fences, after: Self.pause)
                async let jobsWritten: Void = write(jobs, after: Self.pause)
                await write(awaited, after: nil)
                await fencesWritten
                await jobsWritten
                group.cancelAll()
            }
            await writeLast()
        } onGracefulShutdown: {
            for queue in [self.awaited, self.jobs, self.fences] { queue.close() }
        }
    }

    private func write(_ queue: BatchQueue<Settlement>, after pause: Duration?) async {
        for await _ in queue.wakeUps {
            if let pause { _ = await Pause.of(pause) }
            await write(queue.takeAll())
        }
        await write(queue.takeAll())
    }

    /// Tries until the database has it: otherwise the relay would publish it all again. In a shutdown that has to end, only a few times.
    private func write(_ settlements: [Settlement]) async {
        var backOff = Duration.milliseconds(50)
        var attemptsLeft = Self.lastAttempts
        var rest = settlements[...]
        while !rest.isEmpty {
            let part = Array(rest.prefix(Self.maximumBatch))
            let remains = await settle(part)
            guard let outage = remains.outage else {
                later.put(contentsOf: remains.waiting)
                rest = rest.dropFirst(part.count)
                continue
            }
            rest = (remains.waiting + rest.dropFirst(part.count))[...]
            if Task.isShuttingDownGracefully { attemptsLeft -= 1 }
            report(Self.notWritten, rest.count, outage)
            guard attemptsLeft > 0, await Pause.of(backOff) else { return later.put(contentsOf: rest) }
            backOff = min(backOff * 2, .seconds(2))
        }
    }

    private func tryLater() async {
        for await _ in later.wakeUps {
            var (left, backOff) = (later.takeAll(), Duration.milliseconds(50))
            while !left.isEmpty, await Pause.of(backOff) {
                left = await settleAll(left) + later.takeAll()
                backOff = min(backOff * 2, .seconds(5))
            }
            // Cancelled: the last attempts follow.
            if !left.isEmpty { later.put(contentsOf: left) }
        }
    }

    /// What is still not written is given up: its lease runs out, and a relay publishes it again.
    private func writeLast() async {
        let left = await settleAll(later.takeAll())
        if !left.isEmpty { settled(left, areWritten: false) }
    }

    /// - Returns: what has to be tried again.
    private func settleAll(_ settlements: [Settlement]) async -> [Settlement] {
        var waiting: [Settlement] = []
        for start in stride(from: 0, to: settlements.count, by: Self.maximumBatch) {
            let remains = await settle(Array(settlements[start..<min(start + Self.maximumBatch, settlements.count)]))
            waiting += remains.waiting
            if let outage = remains.outage { report(Self.notWritten, remains.waiting.count, outage) }
        }
        return waiting
    }

    /// Writes settlements in one transaction, or in as many as the database makes of it.
    private func settle(_ settlements: [Settlement]) async -> BatchSplit.Remains<Settlement> {
        let remains = await BatchSplit.write(settlements) { part in
            try await commit(part)
            settled(part, areWritten: true)
        }
        for (settlement, error) in remains.refused {
            // Its lease runs out, and a relay looks at it again.
            report(Self.notWritten, 1, error)
            settled([settlement], areWritten: false)
        }
        return remains
    }

    private static let notWritten: Logger.Message = "What was published could not be written down"

    private func report(_ text: Logger.Message, _ count: Int, _ error: any Error) {
        guard !Task.isCancelled else { return }
        logger.failed(text, error, [LogKey.count: "\(count)"])
    }

    private func commit(_ settlements: [Settlement]) async throws {
        var jobs: [PublishedJob] = []
        var fences: [Int64] = []
        for settlement in settlements {
            switch settlement {
            case .job(let job, _): jobs.append(job)
            case .fence(let id): fences.append(id)
            }
        }
        let (settledJobs, fenceIDs) = (jobs, fences.sorted())
        try await pool.transaction { session in
            try JobStore(session: session).settle(settledJobs)
            try OutboxStore(session: session).markPublished(fences: fenceIDs)
        }
    }

    /// - Parameter areWritten: False: given up. The lease of such a job ends, and a relay publishes it again.
    private func settled(_ settlements: [Settlement], areWritten: Bool) {
        var (ended, replies, published): ([JobID], [JobsReply], Int) = ([], [], 0)
        for case .job(let job, let reply) in settlements {
            ended.append(job.id)
            if let reply { replies.append(reply) }
            if job.isPublished, job.isFirst { published += 1 }
        }
        let wasFull = underWay.withLock { [ended] underWay in
            defer { underWay.subtract(ended) }
            return underWay.count >= Relay.maximumUnderWay
        }
        for reply in replies { reply.settled() }
        backlog.shrank(by: published)
        metrics.published(published)
        if wasFull { onSettled() }
    }

    /// A broker that is away for long must not make the relay of another process publish what this one still holds.
    private func renewLeases() async {
        while await Pause.of(lease / 3) {
            let underWay = underWay.withLock { $0 }
            guard underWay.count > 0 else { continue }
            let seconds = lease / .seconds(1)
            do {
                let missed = try await pool.session { session in
                    session.inParts(Array(underWay)) { part in
                        try JobStore(session: session).renew(part, seconds: seconds)
                        return part.map { _ in .success(()) }
                    }.compactMap { (result: Result<Void, any Error>) in
                        if case .failure(let error) = result { error } else { nil }
                    }
                }
                if let error = missed.first { report("Leases could not be renewed", missed.count, error) }
            } catch {
                report("Leases could not be renewed", underWay.count, error)
            }
        }
    }
}

/// Waiting for time to pass.
enum Pause {
    /// - Returns: false where the task was cancelled meanwhile.
    static func of(_ duration: Duration) async -> Bool {
        do {
            try await Task.sleep(for: duration)
            return true
        } catch {
            return false
        }
    }
}
