package import Logging
package import Postgres
package import PushModel
import ServiceLifecycle
import Synchronization
import TokenServiceKit

/// Measures for how long published jobs of each lane wait for a dispatcher, also while none runs.
///
/// This process remembers one job in each second and lane that it published (``WaitingJobs``), and asks PostgreSQL every two seconds which
/// of them a dispatcher has worked on.
package final class LaneWaits: Service {
    package static let interval = Duration.seconds(2)

    private struct State {
        var jobs = Dictionary(uniqueKeysWithValues: Lane.allCases.map { ($0, WaitingJobs()) })
        /// UNIX milliseconds of the last look. While PostgreSQL is away, nothing is known of later moments.
        var lookedAt: Int64 = 0
    }

    private let state = Mutex(State())
    private let pool: PostgresPool
    private let logger: Logger

    package init(pool: PostgresPool, logger: Logger) {
        self.pool = pool
        self.logger = logger
    }

    /// The broker has confirmed jobs of a lane.
    /// - Parameters:
    ///   - job: The last of them of which no delivery has an outcome.
    ///   - expiresAt: The first expiry among them, UNIX milliseconds.
    func published(_ job: JobID, in lane: Lane, expiresAt: Int64, now: Int64) {
        state.withLock { $0.jobs[lane]?.append(WaitingJobs.Job(id: job, publishedAt: now, expiresAt: expiresAt)) }
    }

    /// Seconds since the oldest waiting job was published, at the last look; 0 if none waits.
    package func wait(of lane: Lane) -> Double {
        state.withLock { state in
            state.jobs[lane]?.oldest.map { Double(max(0, state.lookedAt - $0.publishedAt)) / 1000 } ?? 0
        }
    }

    /// Seconds until the first waiting job expires, at most ``WaitingJobs/longestSlack``, which also stands for no waiting job.
    package func slack(of lane: Lane) -> Double {
        state.withLock { state in
            let left = state.jobs[lane]?.firstExpiry.map { Double(max(0, $0 - state.lookedAt)) / 1000 }
            return min(left ?? WaitingJobs.longestSlack, WaitingJobs.longestSlack)
        }
    }

    package func run() async throws {
        await cancelWhenGracefulShutdown {
            var knowsTheDay = false
            while await Pause.of(Self.interval) {
                do {
                    if !knowsTheDay { try await self.remember() }
                    knowsTheDay = true
                    try await self.look()
                } catch {
                    self.logger.failed("How long jobs wait could not be measured", error)
                }
            }
        }
    }

    /// Jobs of the last day that other processes published, or this one before it was started anew.
    package func remember() async throws {
        let published = try await pool.session { try JobStore(session: $0).publishedWithinADay() }
        state.withLock { state in
            for (lane, jobs) in published { state.jobs[lane]?.prepend(jobs) }
        }
    }

    /// Forgets the jobs that a dispatcher has worked on.
    package func look() async throws {
        let now = UnixTime.milliseconds()
        let jobs = state.withLock { state in state.jobs.mapValues(\.ids) }
        let ids = jobs.values.flatMap(\.self)
        let worked = ids.isEmpty ? [] : try await pool.session { try JobStore(session: $0).workedOn(ids) }
        state.withLock { state in
            for lane in jobs.keys { state.jobs[lane]?.forget(worked) }
            state.lookedAt = now
        }
    }
}

/// Jobs of one lane's queue, the oldest first: one in a second and the latest, at most 2,048.
///
/// The queue is first in, first out. So if a dispatcher has worked on a job, all earlier ones are taken too. What still waits of those
/// (for a credential, a device, the end of a hold) is in delayed queues, and no further dispatcher would help it.
package struct WaitingJobs: Sendable {
    package static let longestSlack = 86_400.0
    package static let maximumCount = 2048

    package struct Job: Equatable, Sendable {
        package var id: JobID
        /// UNIX milliseconds.
        package var publishedAt: Int64
        /// UNIX milliseconds: the first expiry among the jobs that this one stands for.
        package var expiresAt: Int64

        package init(id: JobID, publishedAt: Int64, expiresAt: Int64) {
            self.id = id
            self.publishedAt = publishedAt
            self.expiresAt = expiresAt
        }
    }

    package private(set) var jobs: [Job] = []

    package init() {}

    package var oldest: Job? { jobs.first }
    package var firstExpiry: Int64? { jobs.lazy.map(\.expiresAt).min() }
    package var ids: [JobID] { jobs.map(\.id) }

    /// The latest job is always kept, because no later one could show that it waits.
    package mutating func append(_ job: Job) {
        if jobs.count > 1, let latest = jobs.last, latest.publishedAt < jobs[jobs.count - 2].publishedAt + 1000 {
            jobs[jobs.count - 2].expiresAt = min(jobs[jobs.count - 2].expiresAt, latest.expiresAt)
            jobs.removeLast()
        }
        jobs.append(job)
        thinOut()
    }

    /// - Parameter earlier: Ascending.
    package mutating func prepend(_ earlier: [Job]) {
        let later = jobs
        jobs = []
        for job in earlier where job.publishedAt < later.first?.publishedAt ?? .max { append(job) }
        for job in later { append(job) }
    }

    /// Forgets all up to the newest job that a dispatcher has worked on.
    package mutating func forget(_ worked: Set<JobID>) {
        if let newest = jobs.lastIndex(where: { worked.contains($0.id) }) { jobs.removeFirst(newest + 1) }
    }

    /// Keeps every second job, the oldest and the latest among them: a long wait needs no exact second.
    private mutating func thinOut() {
        guard jobs.count > Self.maximumCount else { return }
        let latest = jobs.removeLast()
        jobs = stride(from: 0, to: jobs.count, by: 2).map { index in
            var job = jobs[index]
            if index + 1 < jobs.count { job.expiresAt = min(job.expiresAt, jobs[index + 1].expiresAt) }
            return job
        }
        jobs.append(latest)
    }
}
