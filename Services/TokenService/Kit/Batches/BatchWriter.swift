package import Logging
import ServiceLifecycle
import Synchronization

/// Writes items until the database has each one, or has refused it. It tries an item that the database does not take now again later,
/// beside the others: a locked row stops no other. While the database is away, all items wait, in their order.
///
/// An attempt confirms or acknowledges an item after the transaction has committed. The writer keeps the items that are put off, so its
/// callers bound how many there are.
package final class BatchWriter<Item: Sendable>: Sendable {
    /// Writes items in as many transactions as the database forces (``BatchSplit``).
    /// - Parameter othersAreWritten: Since items that were put off were last tried.
    package typealias Attempt = (_ items: [Item], _ othersAreWritten: Bool) async -> BatchSplit.Remains<Item>

    private static var firstPause: Duration { .milliseconds(50) }
    private static var maximumPause: Duration { .seconds(2) }
    /// Between two attempts to write the items that were put off.
    private static var maximumLaterPause: Duration { .seconds(5) }

    private let maximumBatch: Int
    private let lastAttempts: Int
    private let notWritten: Logger.Message
    private let logger: Logger
    private let later = BatchQueue<Item>()
    private let written = Atomic(0)

    /// - Parameters:
    ///   - maximumBatch: How many items an attempt gets.
    ///   - lastAttempts: How often a shutdown tries items while the database is away.
    ///   - notWritten: Logged while the database is away.
    package init(maximumBatch: Int = .max, lastAttempts: Int, notWritten: Logger.Message, logger: Logger) {
        self.maximumBatch = maximumBatch
        self.lastAttempts = lastAttempts
        self.notWritten = notWritten
        self.logger = logger
    }

    /// Notes a transaction that a fault concerning every item would have refused.
    package func noteWritten() { written.add(1, ordering: .relaxed) }

    /// Returns when each item is written, refused or put off.
    /// - Returns: How many items the database has put off, though it was not away.
    @discardableResult package func write(_ items: [Item], _ attempt: Attempt) async -> Int {
        var (rest, putOff, pause, attemptsLeft) = (items, 0, Self.firstPause, lastAttempts)
        while true {
            let tried = await tryOnce(rest, false, attempt)
            later.put(contentsOf: tried.putOff)
            putOff += tried.putOff.count
            rest = tried.rest
            if rest.isEmpty { return putOff }
            if Task.isShuttingDownGracefully { attemptsLeft -= 1 }
            guard attemptsLeft > 0, await Pause.of(pause) else { break }
            pause = min(pause * 2, Self.maximumPause)
        }
        later.put(contentsOf: rest)
        return putOff
    }

    /// Tries items that were put off, with growing pauses, until the task is cancelled.
    package func tryLater(_ attempt: Attempt) async {
        for await _ in later.wakeUps {
            var (left, pause, before) = (later.takeAll(), Self.firstPause, written.load(ordering: .relaxed))
            while !left.isEmpty, await Pause.of(pause) {
                let tried = await tryOnce(left, written.load(ordering: .relaxed) != before, attempt)
                before = written.load(ordering: .relaxed)
                left = tried.putOff + tried.rest + later.takeAll()
                pause = min(pause * 2, Self.maximumLaterPause)
            }
            later.put(contentsOf: left)
        }
    }

    /// Tries items that were put off a last time, when ``tryLater(_:)`` has ended.
    /// - Returns: The items that are not written.
    package func writeLast(_ attempt: Attempt) async -> [Item] {
        let tried = await tryOnce(later.takeAll(), false, attempt)
        return tried.putOff + tried.rest
    }

    /// Tries batches until the database is away.
    /// - Returns: The items to try later, and those that wait for the database.
    private func tryOnce(_ items: [Item], _ othersAreWritten: Bool, _ attempt: Attempt) async -> (putOff: [Item], rest: [Item]) {
        var (putOff, rest): ([Item], ArraySlice<Item>) = ([], items[...])
        while !rest.isEmpty {
            let batch = Array(rest.prefix(maximumBatch))
            let remains = await attempt(batch, othersAreWritten)
            rest = rest.dropFirst(batch.count)
            if let outage = remains.outage {
                if !Task.isCancelled { logger.failed(notWritten, outage, [LogKey.count: "\(remains.waiting.count + rest.count)"]) }
                if Refusal(outage) == .outage { return (putOff, remains.waiting + rest) }
            }
            putOff += remains.waiting
        }
        return (putOff, [])
    }
}
