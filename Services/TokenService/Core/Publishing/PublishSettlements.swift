package import Logging
package import Postgres
import PushModel
import ServiceLifecycle
import Synchronization

/// Writes down, in batches, what became of publishing: published, or free for the relay. Keeps the leases of what is still under way.
///
/// A confirm that is lost here, because the process dies, costs a second job for the same deliveries; never a lost one.
package final class PublishSettlements: Service {
    private struct UnderWay {
        /// Those that the relay has taken.
        var notifications: Set<PushID> = []
        /// How many are in each row.
        var outbox: [Int64: Int] = [:]
        var inOutbox = 0
        var chunks: Set<ChunkID> = []
        var count: Int { notifications.count + inOutbox + chunks.count }

        mutating func remove(_ settlement: Settlement, isWritten: Bool) {
            switch settlement {
            case .notification(let id, _, let row?): remove(id, in: row, isWritten: isWritten)
            case .notification(let id, _, nil): notifications.remove(id)
            case .chunk(let id, _, _): chunks.remove(id)
            case .fence: break
            }
        }

        /// The lease of a row is renewed until the row is closed, or one of its notifications was given up.
        private mutating func remove(_ id: PushID, in row: OutboxRow, isWritten: Bool) {
            if isWritten { row.settled() }
            guard let count = outbox[row.id] else { return }
            inOutbox -= isWritten ? 1 : count
            outbox[row.id] = isWritten && count > 1 ? count - 1 : nil
        }
    }

    private let pool: PostgresPool
    private let lease: Duration
    private let backlog: PublishBacklog
    private let metrics: TokenServiceMetrics
    private let logger: Logger
    /// Between one writing and the next of what nobody waits for: many share a statement and its commit. Leases are far longer, and the
    /// relay leaves young fences alone.
    private static let pause = Duration.milliseconds(50)
    /// Settlements of one transaction: far below what a statement has time for.
    static let maximumBatch = 1000
    /// How often a shutdown tries what the database did not take; then the leases run out, and a relay publishes it again.
    private static let lastAttempts = 5

    private let chunks = Basket<Settlement>()
    private let notifications = Basket<Settlement>()
    private let fences = Basket<Settlement>()
    /// What the database did not take alone, because a row is locked: tried again beside the others.
    private let later = Basket<Settlement>()
    private let underWay = Mutex(UnderWay())
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

    /// Notifications and chunks that were handed to the broker and are not written down yet.
    package var underWayCount: Int { underWay.withLock { $0.count } }

    func began(_ accepted: [JobPublisher.Accepted]) {
        var outbox: [Int64: Int] = [:]
        var taken: [PushID] = []
        for item in accepted {
            if let row = item.outbox { outbox[row, default: 0] += 1 } else { taken.append(item.template.notification) }
        }
        underWay.withLock { [outbox, taken] underWay in
            underWay.notifications.formUnion(taken)
            underWay.outbox.merge(outbox) { $0 + $1 }
            underWay.inOutbox += accepted.count - taken.count
        }
    }
    func began(_ chunks: [ChunkID]) { underWay.withLock { $0.chunks.formUnion(chunks) } }
    /// - Parameter outbox: The row of the outbox that a notification is in, all of whose notifications are among these.
    func ended(_ notifications: [(id: PushID, isPublished: Bool, outbox: Int64?)]) {
        var sizes: [Int64: Int] = [:]
        for case let row? in notifications.lazy.map(\.outbox) { sizes[row, default: 0] += 1 }
        let rows = Dictionary(uniqueKeysWithValues: sizes.map { ($0.key, OutboxRow($0.key, notifications: $0.value)) })
        self.notifications.put(
            contentsOf: notifications.map { .notification($0.id, isPublished: $0.isPublished, row: $0.outbox.flatMap { rows[$0] }) })
    }
    /// - Parameter written: Resumed once it is written down, or cannot be.
    func ended(_ chunks: [(id: ChunkID, isPublished: Bool)], written: CheckedContinuation<Void, Never>) {
        let reply = ChunksReply(chunks: chunks.count, written)
        self.chunks.put(contentsOf: chunks.map { .chunk($0.id, isPublished: $0.isPublished, reply: reply) })
    }
    /// A walk has come to its end: the notification itself waits no longer.
    func walked() {
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
                async let notificationsWritten: Void = write(notifications, after: Self.pause)
                await write(chunks, after: nil)
                await fencesWritten
                await notificationsWritten
                group.cancelAll()
            }
            await writeLast()
        } onGracefulShutdown: {
            for basket in [self.chunks, self.notifications, self.fences] { basket.close() }
        }
    }

    private func write(_ basket: Basket<Settlement>, after pause: Duration?) async {
        for await _ in basket.wakeUps {
            if let pause { _ = await Pause.of(pause) }
            await write(basket.takeAll())
        }
        await write(basket.takeAll())
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
        var (published, leftOver, fences): ([PushID], [PushID], [Int64]) = ([], [], [])
        var chunks: [(id: ChunkID, isPublished: Bool)] = []
        var rows: [Int64: (row: OutboxRow, notifications: Int)] = [:]
        for settlement in settlements {
            switch settlement {
            case .notification(let id, let isPublished, let row):
                if isPublished { published.append(id) } else { leftOver.append(id) }
                if let row { rows[row.id, default: (row, 0)].notifications += 1 }
            case .chunk(let id, let isPublished, _): chunks.append((id, isPublished))
            case .fence(let id): fences.append(id)
            }
        }
        let (publishedIDs, leftOverIDs, fenceIDs) = (published.sorted(), leftOver.sorted(), fences.sorted())
        let (settledChunks, closed) = (chunks, rows.values.filter { $0.row.isClosed(by: $0.notifications) }.map(\.row.id))
        try await pool.transaction { session in
            let store = OutboxStore(session: session)
            // Chunks before notifications: as outcomes do.
            try store.settle(settledChunks)
            try store.close(closed)
            try store.markPublished(publishedIDs)
            try store.release(leftOverIDs)
            try store.markPublished(fences: fenceIDs)
        }
    }

    /// - Parameter areWritten: False: given up. A row of the outbox stays open then, for a relay.
    private func settled(_ settlements: [Settlement], areWritten: Bool) {
        var published = 0
        let wasFull = underWay.withLock { underWay in
            defer { for settlement in settlements { underWay.remove(settlement, isWritten: areWritten) } }
            return underWay.count >= Relay.maximumUnderWay
        }
        for settlement in settlements {
            switch settlement {
            case .notification(_, let isPublished, _): if isPublished { published += 1 }
            case .chunk(_, _, let reply): reply.settled()
            case .fence: break
            }
        }
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
                    let store = OutboxStore(session: session)
                    return session.renew(underWay.notifications.sorted()) { try store.renew($0, seconds: seconds) }
                        + session.renew(Array(underWay.chunks)) { try store.renew($0, seconds: seconds) }
                        + session.renew(Array(underWay.outbox.keys)) { try store.renew(outbox: $0, seconds: seconds) }
                }
                if let error = missed.first { report("Leases could not be renewed", missed.count, error) }
            } catch {
                report("Leases could not be renewed", underWay.count, error)
            }
        }
    }
}

extension PostgresSession {
    /// - Returns: an error for each lease that the database did not renew.
    fileprivate func renew<ID>(_ ids: [ID], _ renew: ([ID]) throws -> Void) -> [any Error] {
        inParts(ids) { part in
            try renew(part)
            return part.map { _ in Result<Void, any Error>.success(()) }
        }.compactMap { result in
            if case .failure(let error) = result { error } else { nil }
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
