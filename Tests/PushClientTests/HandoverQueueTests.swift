import Foundation
import Testing

@testable import PushClient

@Suite struct HandoverQueueTests {
    private final class Taken: Sendable {
        private let elements = Guarded([Int]())
        var all: [Int] { elements.withLock { $0 } }
        func add(_ element: Int) { elements.withLock { $0.append(element) } }
    }

    @Test func keepsInOrderAndDeliversOnce() {
        let mailbox = HandoverQueue<Int>(capacity: 10)
        let taken = Taken()
        (1...3).forEach(mailbox.put)
        mailbox.attach {
            taken.add($0); return true
        }
        #expect(taken.all == [1, 2, 3])
        mailbox.put(4)
        mailbox.attach {
            taken.add($0); return true
        }
        #expect(taken.all == [1, 2, 3, 4])
    }

    /// What only the earlier consumer holds goes with it, and may use the mailbox once more.
    @Test func aConsumerIsLetGoOutsideTheLock() {
        final class Owner: Sendable {
            let mailbox: HandoverQueue<Int>
            init(_ mailbox: HandoverQueue<Int>) { self.mailbox = mailbox }
            deinit { mailbox.put(1) }
        }
        let mailbox = HandoverQueue<Int>(capacity: 3)
        let taken = Taken()
        mailbox.attach { [owner = Owner(mailbox)] _ in owner.mailbox.dropped == 0 }
        mailbox.attach {
            taken.add($0); return true
        }
        #expect(taken.all == [1])
    }

    @Test func dropsTheOldestThatMayBeDropped() {
        let mailbox = HandoverQueue<Int>(capacity: 3) { $0 >= 10 }
        let taken = Taken()
        [1, 10, 11, 2, 12].forEach(mailbox.put)
        mailbox.attach {
            taken.add($0); return true
        }
        #expect(taken.all == [1, 2, 12])
        #expect(mailbox.dropped == 2)
    }

    @Test func anElementGivesWayToALaterOneOfItsSubject() {
        let mailbox = HandoverQueue<Int>(capacity: 3, subject: { $0 >= 10 ? ["\($0 % 10)"] : nil })
        let taken = Taken()
        [10, 11, 20, 2, 30].forEach(mailbox.put)
        mailbox.attach {
            taken.add($0); return true
        }
        #expect(taken.all == [11, 2, 30])
        #expect(mailbox.dropped == 0)
    }

    @Test func anElementThatWasNotTakenWaitsForTheNextConsumer() {
        let mailbox = HandoverQueue<Int>(capacity: 3)
        let taken = Taken()
        mailbox.attach { _ in false }
        mailbox.put(1)
        mailbox.put(2)
        mailbox.attach {
            taken.add($0); return true
        }
        #expect(taken.all == [1, 2])
    }

    @Test func aConsumerMayPutAndAttach() {
        let mailbox = HandoverQueue<Int>(capacity: 5)
        let taken = Taken()
        mailbox.attach { element in
            taken.add(element)
            if element == 1 {
                mailbox.put(2)
                mailbox.attach {
                    taken.add($0 * 10); return true
                }
            }
            return true
        }
        mailbox.put(1)
        #expect(taken.all == [1, 20])
    }

    @Test func manyThreadsPutWhileConsumersChange() async {
        let mailbox = HandoverQueue<Int>(capacity: 100_000)
        let taken = Taken()
        await withTaskGroup { group in
            for lane in 0..<8 {
                group.addTask { for index in 0..<1_000 { mailbox.put(lane * 1_000 + index) } }
                group.addTask {
                    for _ in 0..<50 {
                        mailbox.attach {
                            taken.add($0); return true
                        }
                    }
                }
            }
        }
        let all = taken.all
        #expect(all.count == 8_000)
        for lane in 0..<8 {
            // Each thread's own order holds, and nothing comes twice.
            #expect(all.filter { $0 / 1_000 == lane } == Array(lane * 1_000..<(lane + 1) * 1_000))
        }
    }
}
