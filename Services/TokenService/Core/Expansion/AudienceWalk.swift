package import Logging
package import Postgres
package import PushModel
import ServiceLifecycle

/// Makes a walked notification's deliveries: reads a page, commits its chunks with the checkpoint, hands them to the broker, and so on
/// (DESIGN.md section 4, step 2). Whoever dies leaves the checkpoint and its unpublished chunks to the next.
package struct AudienceWalk: Sendable {
    /// Pages that are committed and not written down as published: bounds memory whatever the audience, and what a kill sends twice.
    private static let pagesUnderWay = 2

    private let pool: PostgresPool
    private let jobs: JobPublisher
    private let holds: HoldBook
    private let installationsOfPage: Int
    private let lease: Duration
    private let watch: WalkWatch
    private let logger: Logger

    package init(
        pool: PostgresPool, jobs: JobPublisher, holds: HoldBook, page: Int, lease: Duration, watch: WalkWatch, logger: Logger
    ) {
        self.pool = pool
        self.jobs = jobs
        self.holds = holds
        installationsOfPage = page
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
        try await withThrowingTaskGroup(of: Void.self) { group in
            var underWay = 0
            var page = try await read(audience, names)
            while jobs.isReady, !isHeld(audience), !Task.isCancelled, !Task.isShuttingDownGracefully {
                // Before the commit: a committed page must not wait while nobody renews its leases.
                if underWay == Self.pagesUnderWay { try await group.next() } else { underWay += 1 }
                let (current, from) = (page, audience)
                audience.checkpoint = current.page.end
                let ahead = audience
                // The database looks for the next page while this one is written.
                async let following = current.page.isLast ? nil : read(ahead, after: current.page, names)
                try await commit(current, of: from)
                watch.wrote(current.page)
                let due = publishable(current, of: from)
                group.addTask { await jobs.publish(due) }
                guard let next = try await following else { return jobs.walked() }
                page = next
            }
            await release(notification)
        }
    }

    /// The rest is put aside by whoever takes it over. What has expired comes to its end, held or not.
    private func isHeld(_ audience: Audience) -> Bool {
        let (template, now) = (audience.template, UnixTime.milliseconds())
        return template.expiresAt > now
            && holds.holds(app: audience.app, lane: template.lane, notification: template.notification, now: now)
    }

    /// A page, and the moment by which it was decided what of it is due: UNIX milliseconds.
    private struct Reading: Sendable {
        let page: Audience.Page
        let at: Int64
    }

    private func read(_ audience: Audience, after previous: Audience.Page? = nil, _ names: DeliveryNames) async throws -> Reading {
        let (size, now) = (installationsOfPage, UnixTime.milliseconds())
        return Reading(
            page: try await pool.transaction(isolation: .repeatableRead) { session in
                try AudienceStore(session: session)
                    .page(of: audience, after: previous, installations: size, names: names, now: now)
            }, at: now)
    }

    private func commit(_ reading: Reading, of audience: Audience) async throws {
        let seconds = lease / .seconds(1)
        try await pool.transaction { session in
            try AudienceStore(session: session).commit(reading.page, of: audience, leaseSeconds: seconds, now: reading.at)
        }
    }

    private func publishable(_ reading: Reading, of audience: Audience) -> [PublishableChunk] {
        reading.page.chunks.filter { $0.chunk.dueAt <= reading.at }.map { draft in
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
