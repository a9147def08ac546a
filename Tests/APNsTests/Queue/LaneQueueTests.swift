import PushModel
import TestSupport
import Testing

@testable import APNs

@Suite("Which lane goes next")
struct LaneQueueTests {
    private func queue(_ counts: [Lane: Int], maximum: Int = 100_000) -> LaneQueue {
        var queue = LaneQueue(weights: LaneQueue.Weights(), maximumRequests: maximum)
        for (lane, count) in counts {
            for number in 0..<count { _ = queue.append(.make(.make(1, tag: UInt64(number), lane: lane))) }
        }
        return queue
    }

    /// - Parameters:
    ///   - reserved: how many of the requests only `now` may have.
    ///   - reservedBytes: and of the bytes.
    private func take(
        _ count: Int, bytes: Int = .max, for id: ConnectionID = 1, reserved: Int = 0, reservedBytes: Int = 0, from queue: inout LaneQueue
    ) -> [Share] {
        var taken: [Share] = []
        let others = LaneQueue.Room(requests: count - reserved, bytes: bytes - reservedBytes)
        queue.take(for: id, LaneQueue.Room(requests: count, bytes: bytes), others: others, into: &taken)
        return taken
    }

    @Test("With one stream the lanes take turns by their weights, request by request") func oneStream() {
        var queue = queue([.now: 100, .soon: 100, .bulk: 100])
        var order: [Lane] = []
        for _ in 0..<42 { order += take(1, from: &queue).map(\.batch.lane) }
        let round = Array(repeating: Lane.now, count: 16) + Array(repeating: .soon, count: 4) + [.bulk]
        #expect(order == round + round)
    }

    @Test("The lanes share many streams in the same proportion") func manyStreams() {
        var queue = queue([.now: 2000, .soon: 2000, .bulk: 2000])
        let taken = take(1050, from: &queue)
        #expect(taken.count { $0.batch.lane == .now } == 800)
        #expect(taken.count { $0.batch.lane == .soon } == 200)
        #expect(taken.count { $0.batch.lane == .bulk } == 50)
    }

    @Test("A lane that is alone gets every stream") func laneAlone() {
        var queue = queue([.bulk: 500])
        #expect(take(400, from: &queue).count == 400)
        #expect(take(400, from: &queue).count == 100)
        #expect(queue.isEmpty)
    }

    @Test("Only requests of `now` use the reserved streams") func reservedStreams() {
        var queue = queue([.bulk: 500, .soon: 500])
        #expect(take(100, reserved: 10, from: &queue).count == 90)
        #expect(take(10, reserved: 10, from: &queue).isEmpty)
        _ = queue.append(.make(.make(20, tag: 1, lane: .now)))
        #expect(take(10, reserved: 10, from: &queue).map(\.batch.lane) == [.now])
        #expect(queue.count(.now) == 10)
    }

    @Test("Portions for many streams end when only one stream is left") func portions() {
        var queue = queue([.bulk: 5000, .soon: 5000])
        _ = take(1000, from: &queue)
        _ = queue.append(.make(.make(50, tag: 1, lane: .now)))
        // The limit fell to one stream. `now` may wait for the rest of a round of single requests, but not of hundreds.
        var before = 0
        while take(1, from: &queue).first?.batch.lane != .now { before += 1 }
        #expect(before <= 5)
    }

    @Test("The queue cuts a batch where the streams end, and loses or doubles no request") func cutBatch() throws {
        var queue = LaneQueue(weights: LaneQueue.Weights(), maximumRequests: 1000)
        let batch = APNsBatch.make(100)
        _ = queue.append(.make(batch))
        var seen: [Int] = []
        for count in [1, 7, 30, 62, 5] { for share in take(count, from: &queue) { seen += Array(share.requests) } }
        #expect(seen == Array(0..<100))
    }

    @Test("Returned requests go first") func returnedFirst() {
        var queue = queue([.soon: 3])
        let taken = take(2, from: &queue)
        for share in taken { queue.putBack(share) }
        #expect(take(3, from: &queue).map(\.batch.tag) == [0, 1, 2])
    }

    @Test("Requests that one connection refused go to the others and delay nothing") func refusedOnes() {
        var queue = queue([.soon: 2, .now: 1])
        var refused = Share.make(.make(5, tag: 9, lane: .soon))
        refused.refusedBy = [1, 2]
        queue.putBack(refused)
        #expect(queue.count(.soon) == 7)
        #expect(take(100, for: 1, from: &queue).map(\.batch.tag).sorted() == [0, 0, 1])
        #expect(!queue.isEmpty)
        #expect(take(100, for: 2, from: &queue).isEmpty)
        #expect(take(2, for: 3, reserved: 1, from: &queue).map(\.requests) == [0..<1], "a stream that is kept for now stays free")
        #expect(take(100, for: 3, from: &queue).flatMap(\.requests) == Array(1..<5))
        #expect(queue.isEmpty)
    }

    @Test("A batch goes out whole where it fits, and is cut where the bytes end", arguments: [1, 100, 4096])
    func bytes(payload: Int) {
        var queue = LaneQueue(weights: LaneQueue.Weights(), maximumRequests: 1000)
        for tag in 1...3 as ClosedRange<UInt64> { _ = queue.append(.make(.make(100, tag: tag, lane: .bulk, bytes: payload))) }
        #expect(take(300, bytes: 100 * payload, from: &queue).map(\.requests.count) == [100])
        #expect(take(300, bytes: payload - 1, from: &queue).isEmpty)
        #expect(take(300, bytes: 150 * payload, from: &queue).map(\.requests) == [0..<100, 0..<50])
        #expect(take(300, bytes: 50 * payload - 1, from: &queue).map(\.requests) == [50..<99])
        #expect(take(300, bytes: -1, from: &queue).isEmpty)
        #expect(queue.count(.bulk) == 1)
    }

    @Test("Only requests of `now` use the reserved bytes") func reservedBytes() {
        var queue = LaneQueue(weights: LaneQueue.Weights(), maximumRequests: 1000)
        _ = queue.append(.make(.make(100, tag: 1, lane: .bulk, bytes: 1000)))
        #expect(take(100, bytes: 65_000, reservedBytes: 8000, from: &queue).map(\.requests.count) == [57])
        #expect(take(100, bytes: 8_000, reservedBytes: 8000, from: &queue).isEmpty)
        _ = queue.append(.make(.make(20, tag: 2, lane: .now, bytes: 1000)))
        #expect(take(100, bytes: 8_000, reservedBytes: 8000, from: &queue).map(\.batch.tag) == [2])
        #expect(queue.count(.now) == 12 && queue.count(.bulk) == 43)
    }

    @Test("Lanes share bytes as they share streams, and a large request keeps its turn") func lanesAndBytes() {
        var queue = LaneQueue(weights: LaneQueue.Weights(), maximumRequests: 10_000)
        for lane in Lane.allCases { _ = queue.append(.make(.make(2000, lane: lane, bytes: 100))) }
        var counts = Lanes(0)
        for _ in 0..<42 {
            for share in take(100, bytes: 50 * 100, from: &queue) { counts[share.batch.lane] += share.requests.count }
        }
        #expect(counts[.now] == 1600 && counts[.soon] == 400 && counts[.bulk] == 100)
        var large = LaneQueue(weights: LaneQueue.Weights(), maximumRequests: 10_000)
        _ = large.append(.make(.make(1, tag: 1, lane: .now, bytes: 5000)))
        large.putBack(.make(.make(1, tag: 2, lane: .now, bytes: 5000)))
        _ = large.append(.make(.make(1, tag: 3, lane: .bulk, bytes: 100)))
        #expect(take(10, bytes: 1000, from: &large).isEmpty)
        #expect(take(10, bytes: 5000, from: &large).map(\.batch.tag) == [2], "the returned one goes first")
        #expect(take(10, bytes: 5100, from: &large).map(\.batch.tag) == [1, 3])
    }

    /// A full connection frees fewer streams, or less of its window, than it keeps for `now`.
    @Test("A backlog of `now` leaves the other lanes their share of what is kept for it") func shareOfReserve() {
        func counts(_ rounds: Int, _ take: (inout LaneQueue) -> [Share]) -> [Int] {
            var queue = LaneQueue(weights: LaneQueue.Weights(), maximumRequests: 10_000)
            for lane in Lane.allCases { _ = queue.append(.make(.make(10_000, lane: lane, bytes: 1000))) }
            var counts = Lanes(0)
            for _ in 0..<rounds { for share in take(&queue) { counts[share.batch.lane] += share.requests.count } }
            return Lane.allCases.map { counts[$0] }
        }
        #expect(counts(105) { take(20, reserved: 62, from: &$0) } == [1600, 400, 100])
        #expect(counts(42) { take(1, reserved: 62, from: &$0) } == [32, 8, 2])
        #expect(counts(63) { take(256, bytes: 8000, reservedBytes: 8191, from: &$0) } == [384, 96, 24])
    }

    @Test("Small requests of `now` leave the large ones of another lane their turn") func turnOfLarge() {
        var queue = LaneQueue(weights: LaneQueue.Weights(), maximumRequests: 100_000)
        _ = queue.append(.make(.make(60_000, lane: .now, bytes: 300)))
        _ = queue.append(.make(.make(10_000, lane: .bulk, bytes: 4096)))
        var (window, counts) = (0, Lanes(0))
        for _ in 0..<10_000 {
            window += 1_000
            for share in take(256, bytes: window, reservedBytes: 8191, from: &queue) {
                counts[share.batch.lane] += share.requests.count
                window -= share.requests.count * share.batch.payload.count
            }
        }
        #expect(abs(counts[.now] - 16 * counts[.bulk]) <= 400)
    }

    @Test("The first request of `now` after a while goes first, and what is kept for it is there") func keptForNewcomer() {
        var queue = queue([.now: 16, .bulk: 500])
        #expect(take(16, reserved: 10, from: &queue).allSatisfy { $0.batch.lane == .now })
        #expect(take(30, reserved: 10, from: &queue).count == 20)
        _ = queue.append(.make(.make(20, tag: 1, lane: .now)))
        #expect(take(10, reserved: 10, from: &queue).map(\.batch.lane) == [.now])
        _ = queue.append(.make(.make(1, tag: 2, lane: .soon)))
        #expect(take(10, reserved: 10, from: &queue).filter { $0.batch.lane == .bulk }.count <= 1)
        while queue.count(.now) > 0 { _ = take(10, reserved: 10, from: &queue) }
        #expect(take(10, reserved: 10, from: &queue).isEmpty, "kept again once `now` has nothing")
    }

    @Test("Returned requests get no more than the share of their lane") func returnedShare() {
        var queue = queue([.now: 100])
        queue.putBack(.make(.make(100, tag: 9, lane: .bulk)))
        var order: [Lane] = []
        for _ in 0..<17 { order += take(1, from: &queue).map(\.batch.lane) }
        #expect(order == Array(repeating: .now, count: 16) + [.bulk])
    }

    @Test("A full lane refuses new batches, and the other lanes do not") func fullLane() {
        var queue = LaneQueue(weights: LaneQueue.Weights(), maximumRequests: 100)
        #expect(queue.append(.make(.make(60, lane: .bulk))) == true)
        #expect(queue.append(.make(.make(41, lane: .bulk))) == false)
        #expect(queue.append(.make(.make(40, lane: .bulk))) == true)
        #expect(queue.append(.make(.make(100, lane: .now))) == true)
        #expect(queue.count(.bulk) == 100)
        // The queue always takes returned requests.
        queue.putBack(.make(.make(10, lane: .bulk)))
        #expect(queue.count(.bulk) == 110)
    }

    @Test("The queue keeps count and order through any sequence of additions and removals") func anySequence() {
        var random = SeededGenerator(seed: 7)
        var queue = LaneQueue(weights: LaneQueue.Weights(now: 3, soon: 2, bulk: 1), maximumRequests: .max)
        var expected = Lanes<[UInt64]>([])
        var tag: UInt64 = 0
        for _ in 0..<5000 {
            let lane = Lane.allCases.randomElement(using: &random) ?? .now
            if Bool.random(using: &random) {
                let count = Int.random(in: 1...5, using: &random)
                expected[lane] += Array(repeating: tag, count: count)
                #expect(queue.append(.make(.make(count, tag: tag, lane: lane))) == true)
                tag += 1
            } else {
                for share in take(Int.random(in: 1...7, using: &random), from: &queue) {
                    let lane = share.batch.lane
                    #expect(Array(expected[lane].prefix(share.requests.count)).allSatisfy { $0 == share.batch.tag })
                    expected[lane].removeFirst(share.requests.count)
                }
            }
            for lane in Lane.allCases { #expect(queue.count(lane) == expected[lane].count) }
        }
    }

    @Test("Removing takes exactly the matching requests") func removing() {
        var queue = queue([.now: 10, .bulk: 10])
        #expect(queue.remove { $0.batch.tag % 2 == 0 }.count == 10)
        #expect(queue.count(.now) == 5 && queue.count(.bulk) == 5)
        #expect(take(100, from: &queue).allSatisfy { $0.batch.tag % 2 == 1 })
    }
}
