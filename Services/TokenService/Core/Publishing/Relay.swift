package import Broker
package import Logging
package import Postgres
import PushModel
import ServiceLifecycle

/// Publishes what was left over: by a process that died, by a broker that was away, by a publish that failed. Any number may run:
/// each claims its own share with a lease.
package final class Relay: Service {
    /// Notifications that may be under way before more are claimed: bounds memory whatever waits.
    private static let maximumUnderWay = 1000
    private static let maximumClaim = 200
    private static let maximumFences = 500

    private let pool: PostgresPool
    private let publisher: Publisher
    private let jobs: JobPublisher
    private let fences: FencePublisher
    private let settlements: PublishSettlements
    private let backlog: PublishBacklog
    private let pulse: RelayPulse
    private let timing: Timing
    private let logger: Logger

    package struct Timing: Sendable {
        package var interval: Duration
        package var lease: Duration

        package init(interval: Duration, lease: Duration) {
            self.interval = interval
            self.lease = lease
        }
    }

    package init(
        pool: PostgresPool, publisher: Publisher, jobs: JobPublisher, fences: FencePublisher, settlements: PublishSettlements,
        backlog: PublishBacklog, pulse: RelayPulse, timing: Timing, logger: Logger
    ) {
        self.pool = pool
        self.publisher = publisher
        self.jobs = jobs
        self.fences = fences
        self.settlements = settlements
        self.backlog = backlog
        self.pulse = pulse
        self.timing = timing
        self.logger = logger
    }

    package func run() async throws {
        await withGracefulShutdownHandler {
            await withTaskGroup(of: Void.self) { group in
                // The first round is an interval away: a fresh database is migrated meanwhile.
                group.addTask { while await Pause.of(self.timing.interval) { self.pulse.beat() } }
                for await _ in pulse.beats {
                    let succeeded = await round()
                    // After a failure the settlements go first: what they still have to write down must not be claimed.
                    if !succeeded { _ = await Pause.of(timing.interval) }
                }
                group.cancelAll()
            }
        } onGracefulShutdown: {
            self.pulse.end()
        }
    }

    private func round() async -> Bool {
        do {
            let limit = backlog.limit + 1
            backlog.measured(try await pool.session { session in try OutboxStore(session: session).backlog(limit: limit) })
            if publisher.state == .ready {
                try await publishFences()
                try await publishNotifications()
            }
            return true
        } catch {
            logger.warning("The relay could not do its round", metadata: [LogKey.error: "\(String(describing: error))"])
            return false
        }
    }

    private func publishFences() async throws {
        let left = try await pool.session { session in try OutboxStore(session: session).leftOverFences(limit: Self.maximumFences) }
        if await fences.publish(left) == .effective {
            logger.info("Fences that were left over are on the control stream", metadata: [LogKey.count: "\(left.count)"])
        }
    }

    private func publishNotifications() async throws {
        let leaseSeconds = timing.lease / .seconds(1)
        while publisher.state == .ready {
            let room = min(Self.maximumClaim, Self.maximumUnderWay - settlements.underWayCount)
            guard room > 0 else { return }
            let claimed = try await pool.transaction { session in
                try OutboxStore(session: session).claim(room, leaseSeconds: leaseSeconds)
            }
            guard !claimed.isEmpty else { return }
            let resolved = try await pool.transaction { session in try OutboxStore(session: session).resolve(claimed) }
            for item in resolved where !item.deliveries.isEmpty { jobs.publish(item.notification, item.deliveries) }
            logger.info("Notifications that were left over are being published", metadata: [LogKey.count: "\(resolved.count)"])
            guard claimed.count == room else { return }
        }
    }
}

/// Wakes the relay: with time, and when there is room again.
package final class RelayPulse: Sendable {
    private let continuation: AsyncStream<Void>.Continuation
    let beats: AsyncStream<Void>

    package init() {
        (beats, continuation) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
    }

    package func beat() { continuation.yield() }
    package func end() { continuation.finish() }
}
