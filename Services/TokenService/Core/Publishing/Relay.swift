package import Broker
package import Logging
package import Postgres
import PushModel
import ServiceLifecycle
import Synchronization

/// Publishes what was left over: by a process that died, by a broker that was away, by a publish that failed. Any number may run:
/// each claims its own share with a lease.
package final class Relay: Service {
    /// Notifications that may be under way before more are claimed: bounds memory whatever waits.
    static let maximumUnderWay = 1000
    private static let maximumFences = 500
    /// Rows of the outbox that are taken over at once: each is a commit of many notifications.
    private static let maximumOutbox = 20
    /// Walks under way at once, and how many of them may be of the lane `bulk`: another's never waits for one of those.
    private static let maximumWalks = 4
    private static let maximumBulkWalks = 2

    private let pool: PostgresPool
    private let publisher: Publisher
    private let jobs: JobPublisher
    private let fences: FencePublisher
    private let cancellation: Cancellation
    private let holds: HoldService
    private let settlements: PublishSettlements
    private let window: RelayWindow
    private let backlog: PublishBacklog
    private let wakeUp: WakeUp
    private let timing: Timing
    private let logger: Logger
    private let walk: AudienceWalk
    private let watch: WalkWatch
    private let walks = Mutex<[PushID: Lane]>([:])
    private let reach = Mutex(OutboxReach(now: .now))

    package struct Timing: Sendable {
        package var interval: Duration
        package var lease: Duration

        package init(interval: Duration, lease: Duration) {
            self.interval = interval
            self.lease = lease
        }
    }

    package init(
        pool: PostgresPool, publisher: Publisher, jobs: JobPublisher, fences: FencePublisher, cancellation: Cancellation,
        holds: HoldService, settlements: PublishSettlements, window: RelayWindow, backlog: PublishBacklog, wakeUp: WakeUp, timing: Timing,
        walkPage: Int, watch: WalkWatch, logger: Logger
    ) {
        self.pool = pool
        self.publisher = publisher
        self.jobs = jobs
        self.fences = fences
        self.cancellation = cancellation
        self.holds = holds
        self.settlements = settlements
        self.window = window
        self.backlog = backlog
        self.wakeUp = wakeUp
        self.timing = timing
        self.logger = logger
        self.watch = watch
        walk = AudienceWalk(
            pool: pool, jobs: jobs, holds: holds.cache, page: walkPage, lease: timing.lease, watch: watch, logger: logger)
    }

    package func run() async throws {
        await withGracefulShutdownHandler {
            await withDiscardingTaskGroup { group in
                group.addTask { while await Pause.of(self.timing.interval) { self.wakeUp.signal() } }
                for await _ in wakeUp.signals {
                    let succeeded = await round(&group)
                    // After a failure the settlements go first: what they still have to write down must not be claimed.
                    if !succeeded { _ = await Pause.of(timing.interval) }
                }
                group.cancelAll()
            }
        } onGracefulShutdown: {
            self.wakeUp.end()
        }
    }

    private func round(_ group: inout DiscardingTaskGroup) async -> Bool {
        do {
            let limit = backlog.limit + 1
            let moment = backlog.beginMeasuring()
            let leaseSeconds = timing.lease / .seconds(1)
            let beyond = reach.withLock { $0.beyond }
            let (waiting, oldest, bounds) = try await pool.session { session in
                let store = OutboxStore(session: session)
                return (
                    try store.backlog(limit: limit, beyond: beyond), try store.oldestWalk(leaseSeconds: leaseSeconds),
                    try store.outboxBounds(beyond: beyond)
                )
            }
            reach.withLock { $0.measured(last: bounds.last, first: bounds.first, at: .now) }
            backlog.measured(waiting, since: moment)
            watch.measured(oldestDue: oldest)
            let held = try await holds.refresh()
            if publisher.state == .ready {
                try await publishFences()
                _ = try await cancellation.publishLeftOver()
                try await holds.publishAndRelease(held)
                try await takeOver(beyond)
                for lane in Lane.allCases { try await publish(lane, &group) }
            }
            return true
        } catch {
            logger.failed("The relay could not do its round", error)
            return false
        }
    }

    /// What a process accepted and did not come to publish.
    private func takeOver(_ beyond: Int64) async throws {
        while try await pool.session({ try OutboxStore(session: $0).open(Self.maximumOutbox, beyond: beyond) }) == Self.maximumOutbox {}
    }

    private func publishFences() async throws {
        let left = try await pool.session { session in try OutboxStore(session: session).leftOverFences(limit: Self.maximumFences) }
        if await fences.publish(left) == .effective {
            logger.info("Fences that were left over are on the control stream", metadata: [LogKey.count: "\(left.count)"])
        }
    }

    /// What waits in a lane: notifications that have their deliveries, chunks that are due or were left over, walks.
    private func publish(_ lane: Lane, _ group: inout DiscardingTaskGroup) async throws {
        let leaseSeconds = timing.lease / .seconds(1)
        while publisher.state == .ready {
            let isOpen = window.isOpen(lane)
            let (room, walkRoom) = (room(in: lane), walkRoom(in: lane))
            let cache = holds.cache
            let (claimed, isFull) = try await pool.transaction { session in
                let (outbox, audiences) = (OutboxStore(session: session), AudienceStore(session: session))
                var claimed = Claimed(
                    notifications: try outbox.claim(room, of: lane, walked: false, leaseSeconds: leaseSeconds),
                    chunks: try audiences.claimChunks(room, of: lane, leaseSeconds: leaseSeconds),
                    walks: try outbox.claim(walkRoom, of: lane, walked: true, leaseSeconds: leaseSeconds))
                let isFull = room > 0 && max(claimed.notifications.count, claimed.chunks.count) == room
                // Asked after the claim: whatever was held before this became due is known by now.
                if !cache.isEmpty { try claimed.putHeldAside(in: session) }
                return (claimed, isFull)
            }
            holds.putAside(claimed.putAside)
            try await publish(claimed.notifications, isNews: isOpen)
            try await publish(claimed.chunks, isNews: isOpen, &group)
            try await begin(claimed.walks, in: lane, &group)
            // What is held took the places of what is not.
            guard isOpen && isFull || claimed.putAside > 0 else { return }
        }
    }

    private func room(in lane: Lane) -> Int { max(0, min(window.size(of: lane), Self.maximumUnderWay - settlements.underWayCount)) }

    private func publish(_ notifications: [PushID], isNews: Bool) async throws {
        guard !notifications.isEmpty else { return }
        let resolved = try await pool.transaction { session in try OutboxStore(session: session).resolve(notifications) }
        jobs.publish(
            resolved.filter { !$0.deliveries.isEmpty || !$0.stopped.isEmpty }.map {
                JobPublisher.Accepted(template: $0.template, deliveries: $0.deliveries, stopped: $0.stopped, outbox: nil)
            })
        logger.log(
            level: isNews ? .info : .debug, "Notifications that were left over are being published",
            metadata: [LogKey.count: "\(resolved.count)"])
    }

    private func publish(_ chunks: [AudienceStore.ClaimedChunk], isNews: Bool, _ group: inout DiscardingTaskGroup) async throws {
        guard !chunks.isEmpty else { return }
        let now = UnixTime.milliseconds()
        let resolved = try await pool.session { session in try AudienceStore(session: session).resolve(chunks, now: now) }
        group.addTask { await self.jobs.publish(resolved) }
        logger.log(
            level: isNews ? .info : .debug, "Chunks that are due or were left over are being published",
            metadata: [LogKey.count: "\(resolved.count)"])
    }

    // MARK: Walks

    private func walkRoom(in lane: Lane) -> Int {
        guard window.letsWalk(lane, now: .now) else { return 0 }
        return walks.withLock { walks in
            // The last place is for what is urgent.
            let free = max(0, Self.maximumWalks - walks.count - (lane == .now ? 0 : 1))
            let room = lane == .bulk ? max(0, min(free, Self.maximumBulkWalks - walks.values.count { $0 == .bulk })) : free
            return window.isOpen(lane) ? room : min(room, 1)
        }
    }

    /// What they supersede was committed with them, perhaps since this round told the control stream of cancellations: that goes first
    /// (`docs/promises.md`, 6). Where the stream does not take it, they wait.
    private func begin(_ notifications: [PushID], in lane: Lane, _ group: inout DiscardingTaskGroup) async throws {
        guard !notifications.isEmpty else { return }
        let superseding = try await pool.session { session in try OutboxStore(session: session).superseding(notifications) }
        for notification in notifications where !superseding.contains(notification) { begin(notification, in: lane, &group) }
        guard !superseding.isEmpty else { return }
        guard try await cancellation.publishLeftOver() else {
            return try await pool.session { session in try OutboxStore(session: session).release(superseding.sorted()) }
        }
        for notification in superseding { begin(notification, in: lane, &group) }
    }

    private func begin(_ notification: PushID, in lane: Lane, _ group: inout DiscardingTaskGroup) {
        // Its lease ran out while it waited for its database: it goes on by itself.
        guard walks.withLock({ $0.updateValue(lane, forKey: notification) }) == nil else { return }
        group.addTask {
            await self.walk.run(notification)
            self.walks.withLock { $0[notification] = nil }
            self.wakeUp.signal()
        }
    }
}

/// What a round took over of a lane.
private struct Claimed: Sendable {
    var notifications: [PushID]
    var chunks: [AudienceStore.ClaimedChunk]
    var walks: [PushID]
    /// How much of it a hold keeps.
    var putAside = 0

    /// In the transaction that took it over.
    mutating func putHeldAside(in session: PostgresSession) throws {
        guard !notifications.isEmpty || !chunks.isEmpty || !walks.isEmpty else { return }
        let store = HoldStore(session: session)
        try store.lockInForce()
        let held = try store.putAside(notifications: notifications + walks)
        let heldChunks = try store.putAside(chunks: chunks.map(\.id))
        notifications.removeAll { held.contains($0) }
        walks.removeAll { held.contains($0) }
        chunks.removeAll { heldChunks.contains($0.id) }
        putAside = held.count + heldChunks.count
    }
}
