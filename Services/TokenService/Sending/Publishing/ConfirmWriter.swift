package import Logging
import Metrics
package import Observability
package import Postgres
import PushModel
import ServiceLifecycle
import Synchronization
import TokenServiceKit
import TokenServiceRegistry

/// Records the results of publishing in batches: published, or free for the relay. Renews the leases of jobs that are under way.
///
/// If the process dies with an unrecorded confirm, that costs a second job for the same deliveries; never a lost one.
package final class ConfirmWriter: Service {
    private let pool: PostgresPool
    private let lease: Duration
    private let backlog: PublishBacklog
    private let metrics: PublishingMetrics
    private let logger: Logger
    private let writer: BatchWriter<Confirm>
    /// The pause between two writes while no caller waits, so that many confirms share a statement and its commit. Leases are far
    /// longer, and the relay leaves young fences alone.
    private static let pause = Duration.milliseconds(50)
    /// Confirms of one transaction: far below a statement's time limit.
    static let maximumBatch = 1000

    private let awaited = BatchQueue<Confirm>()
    private let jobs = BatchQueue<Confirm>()
    private let fences = BatchQueue<Confirm>()
    private let underWay = Mutex<[JobID: AppLane]>([:])
    /// Wakes the relay, but only if ``Relay/maximumUnderWay`` jobs were under way. With room left, the relay finds waiting jobs in its own
    /// rounds. A wake-up for each confirm would make it query at once, and each query costs the database as much as publishing hundreds
    /// of deliveries.
    private let onRecorded: @Sendable () -> Void

    package init(
        pool: PostgresPool, lease: Duration, backlog: PublishBacklog, metrics: PublishingMetrics, logger: Logger,
        onRecorded: @escaping @Sendable () -> Void
    ) {
        self.pool = pool
        self.lease = lease
        self.backlog = backlog
        self.metrics = metrics
        self.logger = logger
        writer = BatchWriter(maximumBatch: Self.maximumBatch, lastAttempts: 5, notWritten: Self.notWritten, logger: logger)
        self.onRecorded = onRecorded
    }

    /// Jobs that were handed to the broker and are not recorded yet.
    package var underWayCount: Int { underWay.withLock { $0.count } }

    func underWayCount(of lane: Lane) -> Int { underWay.withLock { $0.values.count { $0.lane == lane } } }

    func began(_ jobs: [(id: JobID, key: AppLane)]) {
        underWay.withLock { underWay in for job in jobs { underWay[job.id] = job.key } }
    }

    /// - Parameter reply: Told of each job that is recorded, or cannot be.
    func ended(_ jobs: [PublishedJob], reply: JobsReply?) {
        (reply == nil ? self.jobs : awaited).put(contentsOf: jobs.map { .job($0, reply: reply) })
    }
    /// A fan-out has ended: the notification itself waits no longer.
    func fannedOut(_ key: AppLane) {
        backlog.shrank(key, by: 1)
        metrics.published(1)
    }
    func published(fences ids: [Int64]) { fences.put(contentsOf: ids.map { .fence($0) }) }

    /// Shut it down after the publisher, so that the last confirms are recorded.
    package func run() async throws {
        await withGracefulShutdownHandler {
            do {
                async let _: Void = renewLeases()
                async let _: Void = writer.tryLater(record)
                async let fencesWritten: Void = write(fences, after: Self.pause)
                async let jobsWritten: Void = write(jobs, after: Self.pause)
                await write(awaited, after: nil)
                _ = await (fencesWritten, jobsWritten)
            }
            // Their leases run out, and a relay publishes the jobs again.
            recorded(await writer.writeLast(record), areWritten: false)
        } onGracefulShutdown: {
            for queue in [self.awaited, self.jobs, self.fences] { queue.close() }
        }
    }

    private func write(_ queue: BatchQueue<Confirm>, after pause: Duration?) async {
        for await _ in queue.wakeUps {
            if let pause { _ = await Pause.of(pause) }
            await writer.write(queue.takeAll(), record)
        }
        await writer.write(queue.takeAll(), record)
    }

    /// Writes confirms in one transaction, or in as many as the database forces.
    private func record(_ confirms: [Confirm], othersAreWritten: Bool) async -> BatchSplit.Remains<Confirm> {
        let remains = await BatchSplit.write(confirms) { part in
            try await commit(part)
            recorded(part, areWritten: true)
            return true
        }
        for (confirm, error) in remains.refused {
            // Its lease runs out, and a relay takes it up again.
            report(Self.notWritten, 1, error)
            recorded([confirm], areWritten: false)
        }
        return remains
    }

    private static let notWritten: Logger.Message = "What was published could not be written down"

    private func report(_ text: Logger.Message, _ count: Int, _ error: any Error) {
        guard !Task.isCancelled else { return }
        logger.failed(text, error, [LogKey.count: "\(count)"])
    }

    private func commit(_ confirms: [Confirm]) async throws {
        let jobs = confirms.compactMap { confirm -> PublishedJob? in if case .job(let job, _) = confirm { job } else { nil } }
        let fences = confirms.compactMap { confirm -> Int64? in if case .fence(let id) = confirm { id } else { nil } }.sorted()
        try await pool.transaction { session in
            try JobStore(session: session).record(jobs)
            try FenceStore(session: session).markPublished(fences)
        }
    }

    /// - Parameter areWritten: False: given up. The lease of such a job ends, and a relay publishes it again.
    private func recorded(_ confirms: [Confirm], areWritten: Bool) {
        var (ended, replies): ([PublishedJob], [JobsReply]) = ([], [])
        for case .job(let job, let reply) in confirms {
            ended.append(job)
            if let reply { replies.append(reply) }
        }
        let (wasFull, published) = underWay.withLock { [ended] underWay in
            let counts = underWay.values.reduce(into: Lanes(0)) { $0[$1.lane] += 1 }
            var published: [AppLane: Int] = [:]
            for job in ended {
                guard let key = underWay.removeValue(forKey: job.id) else { continue }
                if job.isPublished, job.isFirst { published[key, default: 0] += 1 }
            }
            return (Lane.allCases.contains { counts[$0] >= Relay.maximumUnderWay }, published)
        }
        for reply in replies { reply.recorded() }
        for (key, number) in published { backlog.shrank(key, by: number) }
        metrics.published(published.values.reduce(0, +))
        if wasFull { onRecorded() }
    }

    /// While the broker is away, the relay of another process must not publish jobs that this one still holds. The publisher gives them up
    /// if it has no connection for long.
    private func renewLeases() async {
        while await Pause.of(lease / 3) {
            let underWay = underWay.withLock { Array($0.keys) }
            guard underWay.count > 0 else { continue }
            let seconds = lease / .seconds(1)
            let remains = await BatchSplit.write(underWay) { part in
                try await pool.session { session in try JobStore(session: session).renew(part, seconds: seconds) }
                return true
            }
            let missed = remains.refused.count + remains.waiting.count
            if missed > 0, let failure = remains.failure { report("Leases could not be renewed", missed, failure) }
        }
    }
}

/// The result of publishing one job, fan-out or fence.
enum Confirm: Sendable {
    /// - reply: Of the caller that waits for it; nil if no caller does.
    case job(PublishedJob, reply: JobsReply?)
    case fence(Int64)
}

/// The broker's answer for one job.
struct PublishedJob: Sendable {
    let id: JobID
    let isPublished: Bool
    /// It is the first job of a notification that its acceptance made, and which waits no longer.
    let isFirst: Bool
}

extension PublishedJob {
    init(_ job: PublishableJob, isPublished: Bool) { self.init(id: job.id, isPublished: isPublished, isFirst: job.isFirst) }
}

/// A caller that waits until the last of its jobs is recorded, or given up.
final class JobsReply: Sendable {
    private let unrecorded: Mutex<Int>
    private let continuation: CheckedContinuation<Void, Never>

    init(jobs: Int, _ continuation: CheckedContinuation<Void, Never>) {
        unrecorded = Mutex(jobs)
        self.continuation = continuation
        if jobs == 0 { continuation.resume() }
    }

    func recorded() {
        let isLast = unrecorded.withLock { unrecorded in
            unrecorded -= 1
            return unrecorded == 0
        }
        if isLast { continuation.resume() }
    }
}

/// Counts published notifications and the relay's failures, and shows what waits.
package struct PublishingMetrics: Sendable {
    private let notifications: Counter
    private let backlog: GaugeMetric
    private let failedSteps: [Relay.Step: Counter]
    private let unreadableJobs: Counter
    private let refused: GaugeMetric
    private let wait: GaugeMetric
    private let slack: GaugeMetric

    package init(_ registry: PrometheusMetrics) {
        notifications = registry.counter(
            "push_token_service_notifications_published_total", "Notifications whose jobs the broker has confirmed.")
        backlog = registry.gauge(
            "push_token_service_publish_backlog", ["lane"], "Notifications that are committed and not published yet; alert when it grows.")
        failedSteps = registry.counters(
            "push_token_service_relay_steps_failed_total", by: "step", Relay.Step.self,
            "Steps of the relay's rounds that failed. A step that fails rests for `RELAY_INTERVAL_MS`; alert if one goes on failing.")
        unreadableJobs = registry.counter(
            "push_token_service_jobs_unreadable_total",
            "Jobs that cannot be read as they are stored, each time that the relay put them off; alert on any.")
        refused = registry.gauge(
            "push_token_service_publish_refused", ["lane"],
            "1 while the broker takes none of the lane's jobs: its queue is full or gone; alert on any.")
        wait = registry.gauge(
            "push_token_service_lane_wait_seconds", ["lane"],
            "How long the oldest job has waited that is published and that no dispatcher has worked on; 0 if none waits. As of the last "
                + "look, every 2 s while PostgreSQL answers. Each process shows the jobs that it published, and after its start those of "
                + "the last day: use the largest.")
        slack = registry.gauge(
            "push_token_service_lane_slack_seconds", ["lane"],
            "Time until the first of these jobs expires; at most 86400, which also stands for no waiting job. Use the smallest.")
    }

    func observe(_ backlog: PublishBacklog, _ window: RelayWindow, _ waits: LaneWaits) {
        for lane in Lane.allCases {
            self.backlog.observe(lane.rawValue) { Double(backlog.count(of: lane)) }
            refused.observe(lane.rawValue) { window.isRefused(lane) ? 1 : 0 }
            wait.observe(lane.rawValue) { waits.wait(of: lane) }
            slack.observe(lane.rawValue) { waits.slack(of: lane) }
        }
    }

    func published(_ number: Int) { notifications.increment(by: number) }
    func failed(_ step: Relay.Step) { failedSteps[step]?.increment() }
    func unreadable(jobs: Int) { unreadableJobs.increment(by: jobs) }
}
