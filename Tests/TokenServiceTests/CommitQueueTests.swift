import Dispatch
import Postgres
import Synchronization
import TestDatabase
import TestSupport
import Testing

@testable import TokenServiceKit

@Suite("Items that wait while a commit is under way share the next one", .timeLimit(.minutes(5)))
struct CommitQueueTests {
    private struct Refused: Error {}

    /// A commit that waits for a word, and remembers its batches.
    private final class Commits: Sendable {
        let begun = Signal<[Int]>()
        let goOn = Signal<Void>()

        func commit(_ items: [Int]) async -> [Result<Int, any Error>] {
            begun.send(items)
            do { try await goOn.next() } catch { return [] }
            return items.map { $0 < 0 ? .failure(Refused()) : .success($0 * 10) }
        }
    }

    @Test("A batch takes all waiting items in their order, and each item succeeds or fails on its own") func waitingItems() async throws {
        let commits = Commits()
        let queue = CommitQueue("test", maximumBatch: 4, concurrency: 1) { items, _ in await commits.commit(items) }
        async let first = queue.submit(1)
        #expect(try await commits.begun.next() == [1])
        let later = try await submitInOrder([2, -3, 4, 5, 6], to: queue)
        commits.goOn.send(())
        #expect(try await first == 10)
        #expect(try await commits.begun.next() == [2, -3, 4, 5])
        commits.goOn.send(())
        #expect(try await commits.begun.next() == [6])
        commits.goOn.send(())
        #expect(try await later[0].value == 20)
        await #expect(throws: Refused.self) { try await later[1].value }
        #expect(try await later[4].value == 60)
    }

    @Test("The queue passes a batch and its answers to `afterwards` before it answers the items") func afterwardsFirst() async throws {
        let log = Mutex<[String]>([])
        let queue = CommitQueue<Int, Int>("test", maximumBatch: 4, concurrency: 1) { items, _ in
            items.map { $0 < 0 ? .failure(Refused()) : .success($0 * 10) }
        } afterwards: { items, answers in
            let words = zip(items, answers).map { item, answer in
                switch answer {
                case .success(let value): "\(item) became \(value)"
                case .failure: "\(item) failed"
                }
            }
            log.withLock { $0 += words }
        }
        #expect(try await queue.submit(1) == 10)
        #expect(log.withLock { $0 } == ["1 became 10"])
        await #expect(throws: Refused.self) { try await queue.submit(-2) }
        #expect(log.withLock { $0 } == ["1 became 10", "-2 failed"])
    }

    @Test("A batch waits for a connection in the queue's own queue, not in a caller's") func queueAtTheDatabase() async throws {
        let queue = CommitQueue<Int, String>("test", maximumBatch: 4, concurrency: 1) { items, _ in
            items.map { _ in .success(PostgresPool.queue) }
        }
        let (alone, together) = try await PostgresPool.$queue.withValue("shop") {
            (try await queue.submit(1), await queue.submit([2, 3]))
        }
        #expect(alone == "test")
        for answer in together { #expect(try answer.get() == "test") }
    }

    @Test("The queue has no more batches under way than allowed") func concurrencyLimit() async throws {
        let commits = Commits()
        let queue = CommitQueue("test", maximumBatch: 1, concurrency: 2) { items, _ in await commits.commit(items) }
        async let first = queue.submit(1)
        #expect(try await commits.begun.next() == [1])
        async let second = queue.submit(2)
        #expect(try await commits.begun.next() == [2])
        let third = try await submitInOrder([3], to: queue)
        #expect(queue.runningCount == 2 && queue.waitingCount == 1)
        for _ in 0..<3 { commits.goOn.send(()) }
        #expect(try await [first, second, third[0].value] == [10, 20, 30])
    }

    @Test("A full queue refuses an item that would only be late") func fullQueue() async throws {
        let commits = Commits()
        let queue = CommitQueue("test", maximumBatch: 8, concurrency: 1, maximumWaiting: 1) { items, _ in await commits.commit(items) }
        async let first = queue.submit(1)
        _ = try await commits.begun.next()
        let second = try await submitInOrder([2], to: queue)
        await #expect(throws: CommitQueueFull.self) { try await queue.submit(3) }
        commits.goOn.send(())
        commits.goOn.send(())
        #expect(try await first == 10)
        #expect(try await second[0].value == 20)
    }

    @Test("Items that come together share batches in their order and get their answers together") func itemsTogether() async throws {
        let commits = Commits()
        let queue = CommitQueue("test", maximumBatch: 4, concurrency: 1) { items, _ in await commits.commit(items) }
        async let answers = queue.submit([1, -2, 3, 4, 5])
        #expect(try await commits.begun.next() == [1, -2, 3, 4])
        commits.goOn.send(())
        #expect(try await commits.begun.next() == [5])
        commits.goOn.send(())
        let results = await answers
        #expect(results.map { try? $0.get() } == [10, nil, 30, 40, 50])
        #expect(throws: Refused.self) { try results[1].get() }
        #expect(await queue.submit([]).isEmpty)
    }

    @Test("Of items that come together, the queue refuses those without room and begins as many batches as are worthwhile")
    func itemsWithoutRoom() async throws {
        let commits = Commits()
        let queue = CommitQueue<Int, Int>(
            "test", maximumBatch: 2, worthwhileBatch: 2, concurrency: 3, maximumWaiting: 10, owner: { "\($0 % 3)" },
            commit: { items, _ in await commits.commit(items) })
        async let answers = queue.submit([1, 2, 3, 4, 5, 6, 7])
        let begun = try await commits.begun.next(2)
        #expect(begun.sorted { $0[0] < $1[0] } == [[1, 2], [3, 4]])
        #expect(queue.runningCount == 2 && queue.waitingCount == 1)
        for _ in 0..<3 { commits.goOn.send(()) }
        let results = await answers
        #expect(results.map { try? $0.get() } == [10, 20, 30, 40, 50, nil, nil])
        for refused in results[5...] { #expect(throws: CommitQueueFull.self) { try refused.get() } }
    }

    @Test("Items that come together leave half of the room to the others, and a place in each batch") func roomForOthers() async throws {
        let commits = Commits()
        let queue = CommitQueue<Int, Int>(
            "test", maximumBatch: 4, concurrency: 1, maximumWaiting: 8, owner: { "\($0 % 2)" },
            commit: { items, _ in await commits.commit(items) })
        async let first = queue.submit(1)
        _ = try await commits.begun.next()
        let together = Task { await queue.submit([10, 11, 12, 13, 14, 15]) }
        while queue.waitingCount < 4 { await Task.yield() }
        let others = try await submitInOrder([2, 3, 4, 5], to: queue)
        await #expect(throws: CommitQueueFull.self) { try await queue.submit(6) }
        for expected in [[2, 3, 4, 10], [5, 11, 12, 13]] {
            commits.goOn.send(())
            #expect(try await commits.begun.next() == expected)
        }
        commits.goOn.send(())
        #expect(try await first == 10)
        for other in others { _ = try await other.value }
        let results = await together.value
        #expect(results.map { try? $0.get() } == [100, 110, 120, 130, nil, nil])
    }

    @Test("A batch is no heavier than allowed") func weights() async throws {
        let commits = Commits()
        let queue = CommitQueue("test", maximumBatch: 8, concurrency: 1, maximumWeight: 10, weight: { $0 }) { items, _ in
            await commits.commit(items)
        }
        async let first = queue.submit(1)
        _ = try await commits.begun.next()
        let later = try await submitInOrder([4, 6, 1, 9, 2], to: queue)
        for expected in [[4, 6], [1, 9], [2]] {
            commits.goOn.send(())
            #expect(try await commits.begun.next() == expected)
        }
        commits.goOn.send(())
        #expect(try await first == 10)
        for task in later { _ = try await task.value }
    }

    @Test("Heavy items go one by one, and cut no batch of the others short") func heavyItems() async throws {
        let batches = Mutex<[[Int]]>([])
        let (begun, goOn) = (Signal<[Int]>(), Signal<Void>())
        // Items above a thousand are heavy. The first batch of each kind waits for a word.
        let queue = CommitQueue<Int, Int>(
            "test", maximumBatch: 256, concurrency: 1, maximumWeight: 1000, weight: { $0 > 1000 ? 1000 : 1 },
            commit: { items, _ in
                batches.withLock { $0.append(items) }
                if items == [0] || items == [2000] {
                    begun.send(items)
                    do { try await goOn.next() } catch { return [] }
                }
                return items.map { .success($0 * 10) }
            })
        async let light = queue.submit(0)
        #expect(try await begun.next() == [0])
        async let heavy = queue.submit(2000)
        #expect(try await begun.next() == [2000])
        #expect(queue.runningCount == 2)
        // Eight of the others after each heavy one.
        var items: [Int] = []
        for number in 0..<125 {
            items.append(2001 + number)
            items += (8 * number + 1)...(8 * number + 8)
        }
        let tasks = try await submitInOrder(items, to: queue)
        goOn.send(())
        goOn.send(())
        #expect(try await light == 0)
        #expect(try await heavy == 20_000)
        for task in tasks { _ = try await task.value }
        let done = batches.withLock { $0 }
        let ofHeavy = done.filter { $0[0] > 1000 }
        #expect(ofHeavy == (2000...2125).map { [$0] })
        let ofOthers = done.filter { $0[0] <= 1000 }
        #expect(ofOthers.map(\.count) == [1, 256, 256, 256, 232])
        #expect(ofOthers.flatMap(\.self) == Array(0...1000))
    }

    @Test("Heavy items have a quarter of the room") func roomOfHeavyItems() async throws {
        let commits = Commits()
        let queue = CommitQueue<Int, Int>(
            "test", maximumBatch: 4, concurrency: 1, maximumWaiting: 8, maximumWeight: 10, weight: { $0 }, owner: { "\($0)" },
            commit: { items, _ in await commits.commit(items) })
        async let first = queue.submit(10)
        #expect(try await commits.begun.next() == [10])
        let heavy = try await submitInOrder([11, 12], to: queue)
        await #expect(throws: CommitQueueFull.self) { try await queue.submit(13) }
        let refused = await queue.submit([14])
        #expect(throws: CommitQueueFull.self) { try refused[0].get() }
        async let light = queue.submit(1)
        #expect(try await commits.begun.next() == [1])
        for _ in 0..<4 { commits.goOn.send(()) }
        #expect(try await [first, light, heavy[0].value, heavy[1].value] == [100, 10, 110, 120])
    }

    /// The owner of 100 to 199 is the first one.
    @Sendable private static func owner(_ item: Int) -> String { "\(item / 100)" }

    @Test("Of items that come together one owner has half of their room, and the owners take turns") func ownersOfItems() async throws {
        let commits = Commits()
        let queue = CommitQueue<Int, Int>(
            "test", maximumBatch: 4, concurrency: 1, maximumWaiting: 16, owner: Self.owner,
            commit: { items, _ in await commits.commit(items) })
        async let first = queue.submit(1)
        _ = try await commits.begun.next()
        let many = Task { await queue.submit([100, 101, 102, 103, 104, 105]) }
        while queue.waitingCount < 4 { await Task.yield() }
        let few = Task { await queue.submit([200, 201]) }
        while queue.waitingCount < 6 { await Task.yield() }
        for expected in [[100, 200, 101, 201], [102, 103]] {
            commits.goOn.send(())
            #expect(try await commits.begun.next() == expected)
        }
        commits.goOn.send(())
        #expect(try await first == 10)
        #expect(await many.value.map { try? $0.get() } == [1000, 1010, 1020, 1030, nil, nil])
        #expect(await few.value.map { try? $0.get() } == [2000, 2010])
    }

    @Test("An owner without items has room for some when two others have filled the room of all") func roomOfAQuietOwner() async throws {
        let commits = Commits()
        let queue = CommitQueue<Int, Int>(
            "test", maximumBatch: 40, concurrency: 1, maximumWaiting: 40, owner: Self.owner,
            commit: { items, _ in await commits.commit(items) })
        async let first = queue.submit(1)
        _ = try await commits.begun.next()
        let loud = [100, 200].map { number in Task { await queue.submit(Array(number..<number + 12)) } }
        while queue.waitingCount < 20 { await Task.yield() }
        let quiet = Task { await queue.submit([300, 301, 302]) }
        while queue.waitingCount < 22 { await Task.yield() }
        // However many such owners there are, a single item has room.
        let others = (4...12).map { owner in Task { await queue.submit([owner * 100, owner * 100 + 1]) } }
        while queue.waitingCount < 40 { await Task.yield() }
        let single = try await submitInOrder([2], to: queue)
        for _ in 1...3 { commits.goOn.send(()) }
        #expect(try await first == 10)
        #expect(try await single[0].value == 20)
        for owner in others { #expect(await owner.value.count == 2) }
        for owner in loud { #expect(await owner.value.count { (try? $0.get()) != nil } == 10) }
        #expect(await quiet.value.map { try? $0.get() } == [3000, 3010, nil])
    }

    @Test("Of heavy items one owner has half of their room, and the owners take turns") func ownersOfHeavyItems() async throws {
        let commits = Commits()
        let queue = CommitQueue<Int, Int>(
            "test", maximumBatch: 4, concurrency: 1, maximumWaiting: 24, maximumWeight: 10, weight: { _ in 10 }, owner: Self.owner,
            commit: { items, _ in await commits.commit(items) })
        async let first = queue.submit(100)
        #expect(try await commits.begun.next() == [100])
        var later = try await submitInOrder([101, 102, 103], to: queue)
        await #expect(throws: CommitQueueFull.self) { try await queue.submit(104) }
        later += try await submitInOrder([200], to: queue)
        for expected in [101, 200, 102, 103] {
            commits.goOn.send(())
            #expect(try await commits.begun.next() == [expected])
        }
        commits.goOn.send(())
        #expect(try await first == 1000)
        for task in later { _ = try await task.value }
    }

    @Test("If a commit forgets an item, that item fails") func forgottenItem() async throws {
        let queue = CommitQueue<Int, Int>("test", maximumBatch: 8, concurrency: 1) { _, _ in [] }
        await #expect(throws: MissingAnswer.self) { try await queue.submit(1) }
        // And the queue goes on.
        await #expect(throws: MissingAnswer.self) { try await queue.submit(2) }
    }

    @Test("A task that goes on to the next batch answers each when it is done, and leaves the queue to others when no item waits")
    func batchSeries() async throws {
        let commits = Commits()
        let series = Mutex(0)
        let queue = CommitQueue<Int, Int>(
            "test", maximumBatch: 2, concurrency: 1,
            commit: { items, onward in
                series.withLock { $0 += 1 }
                var answers = await commits.commit(items)
                while let following = onward(answers) { answers = await commits.commit(following) }
                return answers
            })
        async let first = queue.submit(1)
        #expect(try await commits.begun.next() == [1])
        let later = try await submitInOrder([2, -3, 4], to: queue)
        commits.goOn.send(())
        #expect(try await commits.begun.next() == [2, -3])
        // Answered while the next batch is still under way.
        #expect(try await first == 10)
        commits.goOn.send(())
        #expect(try await commits.begun.next() == [4])
        #expect(try await later[0].value == 20)
        await #expect(throws: Refused.self) { try await later[1].value }
        #expect(series.withLock { $0 } == 1 && queue.runningCount == 1)
        commits.goOn.send(())
        #expect(try await later[2].value == 40)

        async let another = queue.submit(5)
        #expect(try await commits.begun.next() == [5])
        commits.goOn.send(())
        #expect(try await another == 50)
        #expect(series.withLock { $0 } == 2)
    }

    @Test("A series of batches leaves its connection to a caller that waits for one", arguments: [false, true])
    func endOfSeries(someoneWaits: Bool) async throws {
        try await withTestDatabase(poolSize: 1) { pool, _ in
            let (begun, goOn) = (Signal<Void>(), DispatchSemaphore(value: 0))
            let following = Mutex([[2]])
            async let answers = pool.commitSeries([1], onward: { _ in following.withLock { $0.popLast() } }) { items, _ in
                if items == [1] {
                    begun.send()
                    goOn.wait()
                }
                return items.map { Result<Int, any Error>.success($0) }
            }
            try await begun.next()
            let other = someoneWaits ? Task { try await pool.session { _ in } } : nil
            while someoneWaits, pool.gauges.waiting == 0 { await Task.yield() }
            goOn.signal()
            #expect(await answers.map { try? $0.get() } == (someoneWaits ? [1] : [2]))
            try await other?.value
            #expect(following.withLock { $0 } == (someoneWaits ? [[2]] : []))
        }
    }

    /// Submits one after another while every batch is busy, so that the order in the queue is known.
    private func submitInOrder(_ items: [Int], to queue: CommitQueue<Int, Int>) async throws -> [Task<Int, any Error>] {
        var tasks: [Task<Int, any Error>] = []
        for item in items {
            let expected = queue.waitingCount + 1
            tasks.append(Task { try await queue.submit(item) })
            while queue.waitingCount < expected { await Task.yield() }
        }
        return tasks
    }
}
