package import Logging
package import Postgres
import PushModel
import ServiceLifecycle
import Synchronization

/// Writes down, in batches, what became of publishing: published, or free for the relay. Keeps the leases of what is still under way.
///
/// A confirm that is lost here, because the process dies, costs a second job for the same deliveries; never a lost one.
package final class PublishSettlements: Service {
    private enum Settlement {
        case published(PushID)
        case leftOver(PushID)
        case publishedChunk(ChunkID)
        case leftOverChunk(ChunkID)
        /// A row of the outbox, all of which is settled with it.
        case outbox(Int64)
        case fence(Int64)
        /// Whoever put it in wants to know that what came with it is written down.
        case reply(CheckedContinuation<Void, Never>)
    }

    private struct UnderWay {
        /// Those that the relay has taken.
        var notifications: Set<PushID> = []
        /// How many are in each row.
        var outbox: [Int64: Int] = [:]
        var inOutbox = 0
        var chunks: Set<ChunkID> = []
        var count: Int { notifications.count + inOutbox + chunks.count }
    }

    private let pool: PostgresPool
    private let lease: Duration
    private let backlog: PublishBacklog
    private let metrics: TokenServiceMetrics
    private let logger: Logger
    /// Between one writing and the next of what nobody waits for: many share a statement and its commit. Leases are far longer, and the
    /// relay leaves young fences alone.
    private static let pause = Duration.milliseconds(50)

    private let basket = Basket<Settlement>()
    private let notifications = Basket<Settlement>()
    private let fences = Basket<Settlement>()
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

    /// - Returns: the rows of the outbox that they are in.
    func began(_ accepted: [JobPublisher.Accepted]) -> [Int64] {
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
        return Array(outbox.keys)
    }
    func began(_ chunks: [ChunkID]) { underWay.withLock { $0.chunks.formUnion(chunks) } }
    /// - Parameter outbox: The rows of the outbox that these notifications fill.
    func ended(_ notifications: [(id: PushID, isPublished: Bool)], outbox: [Int64]) {
        self.notifications.put(
            contentsOf: notifications.map { $0.isPublished ? .published($0.id) : .leftOver($0.id) } + outbox.map { .outbox($0) })
    }
    /// - Parameter written: Resumed once it is written down, or cannot be.
    func ended(_ chunks: [(id: ChunkID, isPublished: Bool)], written: CheckedContinuation<Void, Never>) {
        basket.put(contentsOf: chunks.map { $0.isPublished ? .publishedChunk($0.id) : .leftOverChunk($0.id) } + [.reply(written)])
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
                async let fencesWritten: Void = writeNowAndThen(fences)
                async let notificationsWritten: Void = writeNowAndThen(notifications)
                for await _ in basket.wakeUps { await write(basket.takeAll()) }
                await write(basket.takeAll())
                await fencesWritten
                await notificationsWritten
                group.cancelAll()
            }
        } onGracefulShutdown: {
            self.basket.close()
            self.notifications.close()
            self.fences.close()
        }
    }

    private func writeNowAndThen(_ basket: Basket<Settlement>) async {
        for await _ in basket.wakeUps {
            _ = await Pause.of(Self.pause)
            await write(basket.takeAll())
        }
        await write(basket.takeAll())
    }

    /// Tries until the database has it: otherwise the relay would publish it all again. In a shutdown that has to end, only a few times.
    private func write(_ settlements: [Settlement]) async {
        guard !settlements.isEmpty else { return }
        var backOff = Duration.milliseconds(50)
        var attemptsLeft = 5
        while true {
            do {
                try await commit(settlements)
                break
            } catch {
                logger.failed("What was published could not be written down", error, [LogKey.count: "\(settlements.count)"])
                if Task.isShuttingDownGracefully { attemptsLeft -= 1 }
                guard attemptsLeft > 0, await Pause.of(backOff) else { break }
                backOff = min(backOff * 2, .seconds(2))
            }
        }
        settled(settlements)
    }

    private func commit(_ settlements: [Settlement]) async throws {
        var published: [PushID] = []
        var leftOver: [PushID] = []
        var chunks: [(id: ChunkID, isPublished: Bool)] = []
        var (fences, outbox): ([Int64], [Int64]) = ([], [])
        for settlement in settlements {
            switch settlement {
            case .published(let id): published.append(id)
            case .leftOver(let id): leftOver.append(id)
            case .publishedChunk(let id): chunks.append((id, true))
            case .leftOverChunk(let id): chunks.append((id, false))
            case .outbox(let id): outbox.append(id)
            case .fence(let id): fences.append(id)
            case .reply: break
            }
        }
        let (publishedIDs, leftOverIDs, fenceIDs) = (published.sorted(), leftOver.sorted(), fences.sorted())
        let (settledChunks, settledOutbox) = (chunks, outbox)
        try await pool.transaction { session in
            let store = OutboxStore(session: session)
            // Chunks before notifications: as outcomes do.
            try store.settle(settledChunks)
            try store.close(settledOutbox)
            try store.markPublished(publishedIDs)
            try store.release(leftOverIDs)
            try store.markPublished(fences: fenceIDs)
        }
    }

    private func settled(_ settlements: [Settlement]) {
        var published = 0
        let wasFull = underWay.withLock { underWay in
            defer { remove(settlements, from: &underWay, published: &published) }
            return underWay.count >= Relay.maximumUnderWay
        }
        backlog.shrank(by: published)
        metrics.published(published)
        if wasFull { onSettled() }
        for case .reply(let continuation) in settlements { continuation.resume() }
    }

    private func remove(_ settlements: [Settlement], from underWay: inout UnderWay, published: inout Int) {
        for settlement in settlements {
            switch settlement {
            case .published(let id):
                if !underWay.notifications.isEmpty { underWay.notifications.remove(id) }
                published += 1
            case .leftOver(let id): underWay.notifications.remove(id)
            case .outbox(let id): underWay.inOutbox -= underWay.outbox.removeValue(forKey: id) ?? 0
            case .publishedChunk(let id), .leftOverChunk(let id): underWay.chunks.remove(id)
            case .fence, .reply: break
            }
        }
    }

    /// A broker that is away for long must not make the relay of another process publish what this one still holds.
    private func renewLeases() async {
        while await Pause.of(lease / 3) {
            let underWay = underWay.withLock { $0 }
            guard underWay.count > 0 else { continue }
            let seconds = lease / .seconds(1)
            do {
                try await pool.session { session in
                    let store = OutboxStore(session: session)
                    try store.renew(underWay.notifications.sorted(), seconds: seconds)
                    try store.renew(Array(underWay.chunks), seconds: seconds)
                    try store.renew(outbox: Array(underWay.outbox.keys), seconds: seconds)
                }
            } catch {
                logger.failed("Leases could not be renewed", error)
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
