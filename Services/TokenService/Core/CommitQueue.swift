import Synchronization

/// Requests that come while a commit is under way share the next one: a database commits hundreds of them for the price of one.
///
/// Nobody waits on purpose: whoever comes to an idle queue is committed at once, alone. A further batch begins beside the first when
/// enough wait to make it worth its price; fewer are better off in the next. Items keep their order within a batch.
package final class CommitQueue<Item: Sendable, Answer: Sendable>: Sendable {
    /// An object, because it is handed on several times and an item may have many parts.
    private final class Waiting: Sendable {
        let item: Item
        let continuation: CheckedContinuation<Answer, any Error>

        init(_ item: Item, _ continuation: CheckedContinuation<Answer, any Error>) {
            self.item = item
            self.continuation = continuation
        }
    }

    private struct State {
        var waiting: [Waiting] = []
        var running = 0
    }

    private let maximumBatch: Int
    private let worthwhileBatch: Int
    private let concurrency: Int
    private let maximumWaiting: Int
    private let weight: @Sendable (Item) -> Int
    private let maximumWeight: Int
    private let commit: @Sendable ([Item]) async -> [Result<Answer, any Error>]
    private let afterwards: @Sendable ([Item], [Result<Answer, any Error>]) -> Void
    private let state = Mutex(State())

    /// - Parameters:
    ///   - worthwhileBatch: How many have to wait for another batch to begin while one is under way.
    ///   - concurrency: How many batches may be under way at once.
    ///   - maximumWaiting: Items beyond that are refused: they would only be late.
    ///   - weight: What an item adds to its batch's weight, which `maximumWeight` bounds; an item that alone is heavier goes alone.
    ///   - commit: Gives one answer per item, in their order.
    ///   - afterwards: Told what became of a batch, before anybody is answered and while the next is under way already.
    package init(
        maximumBatch: Int, worthwhileBatch: Int = 1, concurrency: Int, maximumWaiting: Int = 10_000, maximumWeight: Int = .max,
        weight: @escaping @Sendable (Item) -> Int = { _ in 1 },
        commit: @escaping @Sendable ([Item]) async -> [Result<Answer, any Error>],
        afterwards: @escaping @Sendable ([Item], [Result<Answer, any Error>]) -> Void = { _, _ in }
    ) {
        self.maximumBatch = maximumBatch
        self.worthwhileBatch = worthwhileBatch
        self.concurrency = concurrency
        self.maximumWaiting = maximumWaiting
        self.weight = weight
        self.maximumWeight = maximumWeight
        self.commit = commit
        self.afterwards = afterwards
    }

    /// - Throws: The item's failure; ``CommitQueueFull``.
    package func submit(_ item: Item) async throws -> Answer {
        try await withCheckedThrowingContinuation { continuation in
            let waiting = Waiting(item, continuation)
            let verdict = state.withLock { state -> (isFull: Bool, starts: Bool) in
                guard state.waiting.count < maximumWaiting else { return (true, false) }
                state.waiting.append(waiting)
                guard state.running < concurrency, state.running == 0 || state.waiting.count >= worthwhileBatch else {
                    return (false, false)
                }
                state.running += 1
                return (false, true)
            }
            if verdict.isFull { continuation.resume(throwing: CommitQueueFull()) }
            if verdict.starts { begin() }
        }
    }

    package var waitingCount: Int { state.withLock { $0.waiting.count } }
    /// Batches under way.
    package var runningCount: Int { state.withLock { $0.running } }

    /// On this thread as far as to the database, which would wait for another thread to wake up otherwise; from then on before others'
    /// requests, so that it does not stand still while those are parsed.
    private func begin() { Task.immediate(priority: .high) { await work() } }

    /// Commits a batch, and hands on to the next before anybody is answered: the database works on it meanwhile.
    private func work() async {
        guard let batch = next() else { return }
        let items = batch.map(\.item)
        let answers = await commit(items)
        begin()
        afterwards(items, answers)
        for (index, waiting) in batch.enumerated() {
            waiting.continuation.resume(with: index < answers.count ? answers[index] : .failure(MissingAnswer()))
        }
    }

    /// - Returns: nil where nothing waits; then one batch fewer is under way.
    private func next() -> [Waiting]? {
        state.withLock { state in
            guard !state.waiting.isEmpty else {
                state.running -= 1
                return nil
            }
            var total = 0
            let batch = Array(
                state.waiting.prefix(maximumBatch).prefix { waiting in
                    defer { total += weight(waiting.item) }
                    return total == 0 || total + weight(waiting.item) <= maximumWeight
                })
            state.waiting.removeFirst(batch.count)
            return batch
        }
    }
}

/// Too many requests wait for the database already.
package struct CommitQueueFull: Error {}

/// `commit` broke its promise of one answer per item.
struct MissingAnswer: Error {}
