package import Logging
package import Postgres
package import PushModel
import ServiceLifecycle

/// Makes a walked notification's deliveries: reads a page, commits its chunks with the checkpoint, hands them to the broker, and so on
/// (DESIGN.md section 4, step 2). Whoever dies leaves the checkpoint and its unpublished chunks to the next.
package struct AudienceWalk: Sendable {
    /// Pages that the broker has not confirmed yet; bounds memory whatever the audience.
    private static let pagesUnderWay = 2

    private let pool: PostgresPool
    private let jobs: JobPublisher
    private let holds: HoldBook
    private let lease: Duration
    private let watch: WalkWatch
    private let logger: Logger

    package init(pool: PostgresPool, jobs: JobPublisher, holds: HoldBook, lease: Duration, watch: WalkWatch, logger: Logger) {
        self.pool = pool
        self.jobs = jobs
        self.holds = holds
        self.lease = lease
        self.watch = watch
        self.logger = logger
    }

    /// Walks until the end, until a hold or the broker's absence stops it, or until the task is cancelled. What is left has its lease and is taken up again.
    package func run(_ notification: PushID) async {
        watch.began()
        defer { watch.ended() }
        do {
            try await walk(notification)
        } catch is WalkedElsewhere {
            logger.info("A walk was taken over or stopped", metadata: [LogKey.notification: "\(notification)"])
        } catch {
            logger.warning(
                "A walk was interrupted", metadata: [LogKey.notification: "\(notification)", LogKey.error: "\(String(describing: error))"])
            await release(notification)
        }
    }

    private func walk(_ notification: PushID) async throws {
        guard var audience = try await pool.session({ session in try AudienceStore(session: session).audience(of: notification) }) else {
            return
        }
        let names = DeliveryNames(notification)
        let leaseSeconds = lease / .seconds(1)
        try await withThrowingTaskGroup(of: Void.self) { group in
            var underWay = 0
            while jobs.isReady, !isHeld(audience), !Task.isCancelled, !Task.isShuttingDownGracefully {
                // Before the commit: a committed page must not wait while nobody renews its leases.
                if underWay == Self.pagesUnderWay { try await group.next() } else { underWay += 1 }
                let now = UnixTime.milliseconds()
                let (reading, page) = (audience, try await page(of: audience, names: names, now: now))
                try await pool.transaction { session in
                    try AudienceStore(session: session).commit(page, of: reading, leaseSeconds: leaseSeconds, now: now)
                }
                watch.wrote(page)
                audience.checkpoint = page.end
                let due = publishable(page, of: audience, now: now)
                group.addTask { await jobs.publish(due) }
                guard !page.isLast else { return jobs.walked() }
            }
            await release(notification)
        }
    }

    /// The rest is put aside by whoever takes it over.
    private func isHeld(_ audience: Audience) -> Bool {
        let template = audience.template
        return holds.holds(app: audience.app, lane: template.lane, notification: template.notification, now: UnixTime.milliseconds())
    }

    private func page(of audience: Audience, names: DeliveryNames, now: Int64) async throws -> Audience.Page {
        try await pool.session { session in try AudienceStore(session: session).page(of: audience, names: names, now: now) }
    }

    private func publishable(_ page: Audience.Page, of audience: Audience, now: Int64) -> [PublishableChunk] {
        page.chunks.filter { $0.chunk.dueAt <= now }.map { draft in
            PublishableChunk(
                id: ChunkID(notification: audience.template.notification, number: draft.chunk.number),
                template: audience.template(dueAt: draft.chunk.dueAt, locale: draft.chunk.locale), deliveries: draft.deliveries)
        }
    }

    /// For the next who looks.
    private func release(_ notification: PushID) async {
        do {
            try await pool.session { session in try OutboxStore(session: session).release([notification]) }
        } catch {
            logger.info("A walk's lease runs on", metadata: [LogKey.error: "\(String(describing: error))"])
        }
    }
}
