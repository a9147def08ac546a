import PushModel
import Testing

@testable import Broker
@testable import Dispatcher

@Suite("What waits for the core")
struct CoreEventQueueTests {
    private func message(_ tag: UInt64, _ lane: Lane, bytes: Int = 100) -> ReceivedMessage {
        Fixture.message([UInt8](repeating: 0, count: bytes), tag: tag, routingKey: lane.rawValue)
    }

    private func emptyQueue() -> CoreEventQueue { CoreEventQueue(nowQueue: Topology(prefix: "push").jobQueue(.now)) }

    /// The tags of each portion; nil for an event that brings no jobs.
    private func portions(_ queue: inout CoreEventQueue) -> [[UInt64]?] {
        var portions: [[UInt64]?] = []
        while let portion = queue.next() {
            if case .jobsReceived(let messages) = portion.event {
                portions.append(messages.map(\.receipt.tag))
            } else {
                portions.append(nil)
            }
        }
        return portions
    }

    @Test("Jobs of the lane now overtake those of other lanes, also between two portions of one event")
    func overtakes() {
        var queue = emptyQueue()
        queue.append(contentsOf: [
            .jobsReceived([message(1, .bulk, bytes: 20_000), message(2, .bulk, bytes: 20_000), message(3, .now), message(4, .soon)])
        ])
        let (first, second) = (queue.next(), queue.next())
        #expect(first.map(tags) == [3])
        #expect(second.map(tags) == [1])
        queue.append(contentsOf: [.published(1, []), .jobsReceived([message(5, .now)])])
        let rest = portions(&queue)
        #expect(rest == [[5], [2, 4], nil])
        #expect(queue.isEmpty)
    }

    @Test("Nothing overtakes what changes the fate of jobs")
    func keepsOrder() {
        let barriers: [CoreEvent] = [
            .jobsConnection(isUp: false), .controlConnection(isUp: false), .controlReceived([]), .stop,
        ]
        for barrier in barriers {
            var queue = emptyQueue()
            queue.append(contentsOf: [.jobsReceived([message(1, .bulk)]), barrier, .jobsReceived([message(2, .now), message(3, .bulk)])])
            let before = portions(&queue)
            #expect(before == [[1], nil, [2, 3]])
            // And once it is through, they may again.
            queue.append(contentsOf: [.jobsReceived([message(4, .bulk)]), .jobsReceived([message(5, .now)])])
            let after = portions(&queue)
            #expect(after == [[5], [4]])
        }
    }

    @Test("A large event is taken in portions, each told whether more of it follows; a job that is larger goes alone")
    func cutsPortions() {
        var queue = emptyQueue()
        queue.append(contentsOf: [.jobsReceived([message(1, .bulk, bytes: 50_000)] + (2...11).map { message($0, .bulk, bytes: 8_000) })])
        #expect(queue.count == 1)
        var (taken, continued): ([[UInt64]], [Bool]) = ([], [])
        while let portion = queue.next() {
            taken.append(tags(portion))
            continued.append(portion.isContinued)
        }
        #expect(taken == [[1], [2, 3, 4, 5], [6, 7, 8, 9], [10, 11]])
        #expect(continued == [true, true, true, false])
        #expect(queue.isEmpty)
    }

    private func tags(_ portion: CoreEventQueue.Portion) -> [UInt64] {
        guard case .jobsReceived(let messages) = portion.event else { return [] }
        return messages.map(\.receipt.tag)
    }
}
