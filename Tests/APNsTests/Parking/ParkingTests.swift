import PushModel
import Synchronization
import SystemIO
import Testing

@testable import APNs

@Suite("Where batches wait")
struct ParkingTests {
    let supervisorCalls = Counter()

    final class Counter: Sendable {
        private let value = Mutex(0)
        func increment() { value.withLock { $0 += 1 } }
        var count: Int { value.withLock { $0 } }
    }

    private func parking(maximum: Int = 1000) -> Parking {
        let calls = supervisorCalls
        return Parking(weights: LaneQueue.Weights(), maximumRequests: maximum, now: start) { calls.increment() }
    }

    private func isSignalled(_ wakeUp: WakeUp) throws -> Bool {
        let poller = try Poller(capacity: 1)
        try poller.add(wakeUp.descriptor, key: 0, interest: .read)
        defer { wakeUp.clear() }
        return try !poller.wait(timeout: .zero).isEmpty
    }

    private func take(_ count: Int, _ id: Int, _ wakeUp: WakeUp, reserved: Int = 0, from parking: Parking) -> Int {
        var taken: [Share] = []
        parking.take(for: id, wakeUp, maximum: count, reservedForNow: reserved, into: &taken)
        return taken.reduce(0) { $0 + $1.requests.count }
    }

    @Test func oneHungryConnectionIsWokenAndTheNextBatchWakesAnother() throws {
        let parking = parking()
        let (first, second) = (try WakeUp(), try WakeUp())
        #expect(take(10, 1, first, from: parking) == 0)
        #expect(take(10, 2, second, from: parking) == 0)
        _ = parking.submit([.make(.make(3))])
        #expect(try isSignalled(first))
        #expect(try !isSignalled(second))
        _ = parking.submit([.make(.make(3))])
        #expect(try !isSignalled(first))
        #expect(try isSignalled(second))
        #expect(supervisorCalls.count == 0)
    }

    @Test func aBatchTooLargeForOneWakesSeveralAndTellsTheSupervisorWhatIsLeft() throws {
        let parking = parking()
        let (first, second) = (try WakeUp(), try WakeUp())
        _ = take(2, 1, first, from: parking)
        _ = take(2, 2, second, from: parking)
        _ = parking.submit([.make(.make(5))])
        #expect(try isSignalled(first))
        #expect(try isSignalled(second))
        #expect(supervisorCalls.count == 1)
        _ = parking.submit([.make(.make(5))])
        #expect(supervisorCalls.count == 1)
    }

    @Test func aConnectionWithOnlyReservedStreamsIsWokenForNowAlone() throws {
        let parking = parking()
        let wakeUp = try WakeUp()
        _ = take(4, 1, wakeUp, reserved: 4, from: parking)
        _ = parking.submit([.make(.make(1, lane: .bulk))])
        #expect(try !isSignalled(wakeUp))
        _ = parking.submit([.make(.make(1, lane: .now))])
        #expect(try isSignalled(wakeUp))
    }

    @Test func whoLeavesPassesItsWakeUpOn() throws {
        let parking = parking()
        let (first, second) = (try WakeUp(), try WakeUp())
        _ = take(10, 1, first, from: parking)
        _ = take(10, 2, second, from: parking)
        _ = parking.submit([.make(.make(3))])
        #expect(try isSignalled(first))
        parking.leave(1)
        #expect(try isSignalled(second))
        #expect(take(10, 2, second, from: parking) == 3)
    }

    @Test func theLastOneToLeaveTellsTheSupervisor() throws {
        let parking = parking()
        let only = try WakeUp()
        _ = take(10, 1, only, from: parking)
        _ = parking.submit([.make(.make(3))])
        #expect(supervisorCalls.count == 0)
        parking.leave(1)
        #expect(supervisorCalls.count == 1)
    }

    @Test func whatIsPutBackIsForTheOthers() throws {
        let parking = parking()
        let (first, second) = (try WakeUp(), try WakeUp())
        _ = take(10, 2, second, from: parking)
        _ = take(10, 1, first, from: parking)
        #expect(parking.putBack([.make(.make(3))], from: 1).isEmpty)
        #expect(try !isSignalled(first))
        #expect(try isSignalled(second))
    }

    private func refused(by connections: ConnectionID...) -> Share {
        var share = Share.make(.make(3))
        share.refusedBy = connections
        return share
    }

    @Test func whatOneConnectionRefusedWakesAnotherThatDidNot() throws {
        let parking = parking()
        let wakeUps = try (1...3).map { _ in try WakeUp() }
        for id in 1...3 {
            parking.join(id)
            _ = take(10, id, wakeUps[id - 1], from: parking)
        }
        #expect(parking.putBack([refused(by: 1, 2)], from: 2).isEmpty)
        #expect(try wakeUps.map(isSignalled) == [false, false, true])
        #expect(take(10, 1, wakeUps[0], from: parking) == 0)
        #expect(take(10, 2, wakeUps[1], from: parking) == 0)
        // The third leaves instead: it is for whoever comes.
        parking.leave(3)
        #expect(take(10, 4, wakeUps[2], from: parking) == 3)
    }

    @Test func whatEveryConnectionRefusedComesBack() {
        let parking = parking()
        parking.join(1)
        #expect(parking.putBack([refused(by: 1)], from: 1).count == 1, "there is no other")
        parking.join(2)
        #expect(parking.putBack([refused(by: 1)], from: 1).isEmpty)
        #expect(parking.putBack([refused(by: 1, 2)], from: 2).count == 1)
        for id in 3...9 { parking.join(id) }
        #expect(parking.putBack([refused(by: 1, 2, 3)], from: 3).isEmpty, "the third time at once")
        #expect(parking.putBack([refused(by: 1, 2, 3, 4)], from: 4).count == 1, "and not a fourth")
        // A connection that ended is being replaced.
        parking.leave(1)
        #expect(parking.putBack([refused(by: 1)], from: 1).isEmpty)
    }

    @Test func refusingHandsOutWhatWaitsAndTurnsNewcomersAway() throws {
        let parking = parking()
        _ = parking.submit([.make(.make(3))])
        let room = parking.update(admission: .refusing(.poolPaused), looksAway: false)
        #expect(room.removed.count == 1)
        #expect(!room.hasWork)
        guard parking.submit([.make(.make(1))]).map(\.reason) == [.poolPaused] else {
            Issue.record("a newcomer was parked")
            return
        }
        _ = parking.update(admission: .open, looksAway: false)
        guard parking.submit([.make(.make(1))]).isEmpty else {
            Issue.record("a newcomer was turned away")
            return
        }
    }

    @Test func parkingIsBounded() {
        let parking = parking(maximum: 10)
        guard parking.submit([.make(.make(10))]).isEmpty, parking.submit([.make(.make(1))]).map(\.reason) == [.parkingFull] else {
            Issue.record("the bound does not hold")
            return
        }
    }
}

@Suite("A batch and its answers")
struct BatchLedgerTests {
    @Test func itIsWholeOnceAndOnlyOnce() {
        let ledger = BatchLedger(.make(5))
        var first = [0, 1].map { APNsAnswer(index: $0, sentAt: 1, result: .accepted) }
        var second = [4].map { APNsAnswer(index: $0, sentAt: 1, result: .unknown(.timedOut)) }
        var third = [2, 3].map { APNsAnswer(index: $0, sentAt: nil, result: .notSent(.refused)) }
        let results = [ledger.settle(&first), ledger.settle(&second), ledger.settle(&third)]
        #expect(results.map { $0 == nil } == [true, true, false])
        #expect(results[2]?.answers.map(\.index).sorted() == [0, 1, 2, 3, 4])
        #expect(first.isEmpty && second.isEmpty && third.isEmpty)
    }

    @Test func neighboursGivenBackOneByOneBecomeOneShareAgain() {
        let (one, other) = (Share.make(.make(10, tag: 1)), Share.make(.make(3, tag: 2)))
        func piece(_ share: Share, _ range: Range<Int>, refusedBy: [ConnectionID] = [1]) -> Share {
            var piece = share
            piece.requests = range
            piece.refusedBy = refusedBy
            return piece
        }
        let joined = Share.joined([
            piece(one, 7..<8), piece(one, 6..<7), piece(other, 2..<3), piece(one, 5..<6), piece(other, 0..<1),
            piece(one, 8..<10, refusedBy: []),
        ])
        #expect(joined.map(\.requests) == [5..<8, 8..<10, 0..<1, 2..<3])
    }
}
