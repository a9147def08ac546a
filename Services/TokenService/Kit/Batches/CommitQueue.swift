package import Postgres
import Synchronization
import SystemIO

/// Requests that come while a commit is under way share the next one: a database commits hundreds of them for the price of one.
///
/// The queue never delays an item to fill a batch: an idle queue commits an item at once, alone. A second batch begins beside the first
/// only when enough items wait; fewer wait for the next. Items keep their order within a batch.
///
/// Items that were submitted together have half of the room, and a quarter of each batch if others wait too: however many one caller
/// submits, the items of the others are taken and go on.
///
/// An item that fills a batch is heavy. Heavy items have a quarter of the room and go one by one, beside the others: these never wait for
/// one, and it never cuts their batches short.
///
/// Of either room one owner has half, and one with less than a tenth of it there has room while the queue has any. The owners take turns,
/// so that an owner with many items keeps back no other.
package final class CommitQueue<Item: Sendable, Answer: Sendable>: Sendable {
    /// Takes the answers of the committed batch and returns the next batch, or nil where no item waits, and then took nothing. A `commit`
    /// on a thread of its own calls it, so that the database need not wait for another thread.
    package typealias Onward = @Sendable ([Result<Answer, any Error>]) -> [Item]?

    /// A class, because it is passed on several times and an item may be large.
    private final class Waiting: Sendable {
        let item: Item
        let receiver: Receiver

        init(_ item: Item, _ receiver: Receiver) {
            self.item = item
            self.receiver = receiver
        }
    }

    /// The receiver of an item's answer.
    private enum Receiver: Sendable {
        case one(CheckedContinuation<Answer, any Error>)
        case many(Answers, index: Int)

        func resume(with answer: Result<Answer, any Error>) {
            switch self {
            case .one(let continuation): continuation.resume(with: answer)
            case .many(let answers, let index): answers.put(answer, at: index)
            }
        }
    }

    /// The answers of items that were submitted together. Their caller goes on when the last one is there.
    private final class Answers: Sendable {
        private struct State {
            var answers: [Result<Answer, any Error>?]
            var missing: Int
        }

        private let state: Mutex<State>
        private let continuation: CheckedContinuation<[Result<Answer, any Error>], Never>

        init(_ count: Int, _ continuation: CheckedContinuation<[Result<Answer, any Error>], Never>) {
            state = Mutex(State(answers: Array(repeating: nil, count: count), missing: count))
            self.continuation = continuation
        }

        func put(_ answer: Result<Answer, any Error>, at index: Int) {
            let all = state.withLock { state -> [Result<Answer, any Error>]? in
                state.answers[index] = answer
                state.missing -= 1
                return state.missing == 0 ? state.answers.compactMap(\.self) : nil
            }
            if let all { continuation.resume(returning: all) }
        }
    }

    private enum Kind { case light, heavy }

    private struct State {
        var waiting: [Waiting] = []
        /// Items that were submitted together with others.
        var together = Turns<Waiting>()
        var heavy = Turns<Waiting>()
        /// Batches of the others.
        var running = 0
        var isHeavyRunning = false

        /// How many items wait, without the heavy ones.
        var light: Int { waiting.count + together.count }
        var count: Int { light + heavy.count }
    }

    private let name: String
    private let maximumBatch: Int
    private let worthwhileBatch: Int
    private let concurrency: Int
    private let maximumWaiting: Int
    private let weight: @Sendable (Item) -> Int
    private let maximumWeight: Int
    private let owner: @Sendable (Item) -> String
    private let commit: @Sendable ([Item], @escaping Onward) async -> [Result<Answer, any Error>]
    private let afterwards: @Sendable ([Item], [Result<Answer, any Error>]) -> Void
    private let state = Mutex(State())

    /// - Parameters:
    ///   - name: Of the queue in which its batches wait for a connection (`PostgresPool.queue`); no app's slug.
    ///   - worthwhileBatch: How many have to wait for another batch to begin while one is under way.
    ///   - concurrency: How many batches may be under way at once, a heavy item aside.
    ///   - maximumWaiting: The queue refuses further items.
    ///   - weight: What an item adds to its batch's weight, which `maximumWeight` bounds; an item that alone is as heavy goes alone.
    ///   - owner: Whose an item is; by itself all are of one owner.
    ///   - commit: Returns one answer per item, in their order; if it called ``Onward``, those of the last batch.
    ///   - afterwards: Called with the answers of a batch, before its items are answered and while the next batch is under way.
    package init(
        _ name: String, maximumBatch: Int, worthwhileBatch: Int = 1, concurrency: Int, maximumWaiting: Int = 10_000,
        maximumWeight: Int = .max,
        weight: @escaping @Sendable (Item) -> Int = { _ in 1 },
        owner: @escaping @Sendable (Item) -> String = { _ in "" },
        commit: @escaping @Sendable ([Item], @escaping Onward) async -> [Result<Answer, any Error>],
        afterwards: @escaping @Sendable ([Item], [Result<Answer, any Error>]) -> Void = { _, _ in }
    ) {
        self.name = name
        self.maximumBatch = maximumBatch
        self.worthwhileBatch = worthwhileBatch
        self.concurrency = concurrency
        self.maximumWaiting = maximumWaiting
        self.weight = weight
        self.maximumWeight = maximumWeight
        self.owner = owner
        self.commit = commit
        self.afterwards = afterwards
    }

    /// - Throws: The item's failure; ``CommitQueueFull``.
    package func submit(_ item: Item) async throws -> Answer {
        try await withCheckedThrowingContinuation { continuation in
            let waiting = Waiting(item, .one(continuation))
            let admission = state.withLock { state -> (isFull: Bool, batches: [Kind]) in
                if isHeavy(item) {
                    guard hasRoomForHeavy(state, of: owner(item)) else { return (true, []) }
                    state.heavy.append(waiting, to: owner(item))
                } else {
                    guard state.waiting.count < maximumWaiting - maximumWaiting / 2 || state.count < maximumWaiting else {
                        return (true, [])
                    }
                    state.waiting.append(waiting)
                }
                return (false, countInBatches(&state))
            }
            if admission.isFull { continuation.resume(throwing: CommitQueueFull()) }
            for kind in admission.batches { begin(kind) }
        }
    }

    /// Submits items together, one behind the other, so that they share batches.
    /// - Returns: When the last one has its answer: one per item, in their order. ``CommitQueueFull`` for those that found no room.
    package func submit(_ items: [Item]) async -> [Result<Answer, any Error>] {
        guard !items.isEmpty else { return [] }
        return await withCheckedContinuation { continuation in
            let answers = Answers(items.count, continuation)
            let waiting = items.enumerated().map { index, item in Waiting(item, .many(answers, index: index)) }
            let admission = state.withLock { state -> (refused: [Waiting], batches: [Kind]) in
                var refused: [Waiting] = []
                for waiting in waiting {
                    let owner = owner(waiting.item)
                    if isHeavy(waiting.item), hasRoomForHeavy(state, of: owner) {
                        state.heavy.append(waiting, to: owner)
                    } else if !isHeavy(waiting.item), hasRoom(for: owner, in: state.together, of: maximumWaiting / 2, state) {
                        state.together.append(waiting, to: owner)
                    } else {
                        refused.append(waiting)
                    }
                }
                return (refused, countInBatches(&state))
            }
            for refused in admission.refused { refused.receiver.resume(with: .failure(CommitQueueFull())) }
            for kind in admission.batches { begin(kind) }
        }
    }

    /// Counts in the batches that are to begin now.
    /// - Returns: Their kinds. ``begin(_:)`` must follow for each.
    private func countInBatches(_ state: inout State) -> [Kind] {
        var (batches, left): ([Kind], Int) = ([], state.light)
        while left > 0, state.running < concurrency, state.running == 0 || left >= worthwhileBatch {
            state.running += 1
            batches.append(.light)
            left -= maximumBatch
        }
        if !state.heavy.isEmpty, !state.isHeavyRunning {
            state.isHeavyRunning = true
            batches.append(.heavy)
        }
        return batches
    }

    private func isHeavy(_ item: Item) -> Bool { weight(item) >= maximumWeight }

    private func hasRoomForHeavy(_ state: State, of owner: String) -> Bool {
        hasRoom(for: owner, in: state.heavy, of: max(1, maximumWaiting / 4), state)
    }

    /// - Parameter room: How many items of all owners in `turns` have room; one owner has half of it.
    private func hasRoom(for owner: String, in turns: Turns<Waiting>, of room: Int, _ state: State) -> Bool {
        let own = turns.count(of: owner)
        return state.count < maximumWaiting && (own < assured(of: room) || turns.count < room && own < max(1, room / 2))
    }

    /// Two owners at their halves would keep all others out.
    private func assured(of room: Int) -> Int { room / 10 }

    package var waitingCount: Int { state.withLock { $0.count } }
    /// Batches under way.
    package var runningCount: Int { state.withLock { $0.running + ($0.isHeavyRunning ? 1 : 0) } }

    /// A priority above that of requests, so that the database need not wait while those are parsed.
    private static var priority: TaskPriority { .high }

    /// Begins on this thread, because the database would wait for another one to wake up. Detached, because a batch has items of many
    /// callers: it waits for a connection in no caller's queue (`PostgresPool.queue`).
    private func begin(_ kind: Kind) {
        Task.immediateDetached(priority: Self.priority) { await PostgresPool.$queue.withValue(name) { await work(kind) } }
    }

    /// Commits a batch, and begins the next before it answers the items, so that the database works meanwhile.
    private func work(_ kind: Kind) async {
        guard let first = next(kind, ends: true) else { return }
        let series = Series(first)
        let answers = await commit(first.map(\.item)) { [self] answers in
            guard let following = next(kind, ends: false) else { return nil }
            let answered = series.exchange(following)
            Task(priority: Self.priority) { answer(answered, answers) }
            return following.map(\.item)
        }
        begin(kind)
        answer(series.exchange([]), answers)
    }

    /// The batch of a series that is being committed.
    private final class Series: Sendable {
        private let batch: Mutex<[Waiting]>

        init(_ batch: [Waiting]) { self.batch = Mutex(batch) }

        func exchange(_ other: [Waiting]) -> [Waiting] {
            batch.withLock { batch in
                defer { batch = other }
                return batch
            }
        }
    }

    private func answer(_ batch: [Waiting], _ answers: [Result<Answer, any Error>]) {
        afterwards(batch.map(\.item), answers)
        for (index, waiting) in batch.enumerated() {
            waiting.receiver.resume(with: index < answers.count ? answers[index] : .failure(MissingAnswer()))
        }
    }

    /// - Parameter ends: Whether the number of batches under way goes down where no item waits.
    private func next(_ kind: Kind, ends: Bool) -> [Waiting]? {
        state.withLock { state in
            if kind == .heavy {
                guard let first = state.heavy.popFirst() else {
                    if ends { state.isHeavyRunning = false }
                    return nil
                }
                return [first]
            }
            guard state.light > 0 else {
                if ends { state.running -= 1 }
                return nil
            }
            var (batch, total): ([Waiting], Int) = ([], 0)
            take(from: &state.waiting, upTo: state.together.isEmpty ? maximumBatch : maximumBatch - maximumBatch / 4, &batch, &total)
            takeInTurn(from: &state.together, upTo: maximumBatch, &batch, &total)
            take(from: &state.waiting, upTo: maximumBatch, &batch, &total)
            return batch
        }
    }

    /// Moves the first items of a queue into a batch, until it has so many or is as heavy as it may be. One that became heavy while it
    /// waited goes alone.
    private func take(from queue: inout [Waiting], upTo count: Int, _ batch: inout [Waiting], _ total: inout Int) {
        var taken = 0
        for waiting in queue.prefix(max(0, count - batch.count)) {
            let added = weight(waiting.item)
            guard batch.isEmpty || total + added <= maximumWeight else { break }
            batch.append(waiting)
            total += added
            taken += 1
        }
        queue.removeFirst(taken)
    }

    private func takeInTurn(from turns: inout Turns<Waiting>, upTo count: Int, _ batch: inout [Waiting], _ total: inout Int) {
        while batch.count < count, let waiting = turns.first {
            let added = weight(waiting.item)
            guard batch.isEmpty || total + added <= maximumWeight else { break }
            batch.append(waiting)
            total += added
            turns.popFirst()
        }
    }
}

/// Too many requests wait for the database already.
package struct CommitQueueFull: ProblemError {

    package init() {}
    package var problem: APIError { APIError(.overloaded, "too many requests wait for the database") }
}

/// `commit` returned fewer answers than items.
package struct MissingAnswer: Error {
    package init() {}
}

extension PostgresPool {
    /// How long batches follow one another on a connection that no other caller waits for, before its plans are renewed.
    private static var maximumSeries: Duration { .milliseconds(250) }

    /// Commits a batch of a ``CommitQueue`` and those that follow it on the connection's own thread, because a change of threads costs
    /// time. The series ends when another caller waits for a connection.
    /// - Parameter commit: One answer per item, in their order.
    /// - Returns: The answers of the last batch.
    package func commitSeries<Item: Sendable, Answer: Sendable>(
        _ first: [Item], onward: @escaping CommitQueue<Item, Answer>.Onward,
        commit: @escaping @Sendable ([Item], PostgresSession) -> [Result<Answer, any Error>]
    ) async -> [Result<Answer, any Error>] {
        do {
            return try await session { session in
                let end = ContinuousClock.now + Self.maximumSeries
                var answers = commit(first, session)
                while session.isConnected, !self.isContended, ContinuousClock.now < end, let following = onward(answers) {
                    answers = commit(following, session)
                }
                return answers
            }
        } catch {
            // No connection was free: nothing was begun.
            return first.map { _ in .failure(error) }
        }
    }
}
