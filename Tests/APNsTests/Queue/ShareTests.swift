import PushModel
import Testing

@testable import APNs

@Suite("What connections give back")
struct ShareTests {
    private func refused(by connections: ConnectionID...) -> Share {
        var share = Share.make(.make(3))
        share.refusedBy = connections
        return share
    }

    @Test("A refused share goes to a connection that did not refuse it") func otherConnection() {
        var queue = LaneQueue(weights: LaneQueue.Weights(), maximumRequests: 100)
        queue.putBack(refused(by: 1, 2))
        var taken: [Share] = []
        let room = LaneQueue.Room(requests: 10, bytes: 10_000)
        for id in 1...2 { queue.take(for: id, room, others: room, into: &taken) }
        #expect(taken.isEmpty)
        queue.take(for: 3, room, others: room, into: &taken)
        #expect(taken.map(\.requests.count) == [3])
    }

    @Test("A share comes back when no connection may have it") func noneLeft() {
        func mayBeResent(_ refusers: [ConnectionID], usable: Set<ConnectionID>) -> Bool {
            var share = Share.make(.make(3))
            share.refusedBy = refusers
            return share.mayBeResent(after: refusers[refusers.count - 1], usable: usable)
        }
        #expect(!mayBeResent([1], usable: [1]), "there is no other")
        #expect(mayBeResent([1], usable: [1, 2]))
        #expect(!mayBeResent([1, 2], usable: [1, 2]))
        #expect(mayBeResent([1, 2, 3], usable: Set(1...9)), "the third time at once")
        #expect(!mayBeResent([1, 2, 3, 4], usable: Set(1...9)), "and not a fourth")
        #expect(mayBeResent([1], usable: []), "a connection that ended is being replaced")
    }
}

@Suite("A batch and its answers")
struct BatchLedgerTests {
    @Test("A ledger reports its batch once, when every answer is there") func completeOnce() {
        let ledger = BatchLedger(.make(5))
        var first = [0, 1].map { APNsAnswer(index: $0, sentAt: 1, result: .accepted) }
        var second = [4].map { APNsAnswer(index: $0, sentAt: 1, result: .unknown(.timedOut)) }
        var third = [2, 3].map { APNsAnswer(index: $0, sentAt: nil, result: .notSent(.refused)) }
        let results = [ledger.settle(&first), ledger.settle(&second), ledger.settle(&third)]
        #expect(results.map { $0 == nil } == [true, true, false])
        #expect(results[2]?.answers.map(\.index).sorted() == [0, 1, 2, 3, 4])
        #expect(first.isEmpty && second.isEmpty && third.isEmpty)
    }

    @Test("Neighbouring requests that come back one by one become one share again") func joining() {
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
