import PushModel
import Testing

@testable import Broker
@testable import Dispatcher

@Suite("What waits for the core")
struct CoreEventQueueTests {
    private func message(_ tag: UInt64, _ lane: Lane, bytes: Int = 100) -> ReceivedMessage {
        Fixture.message([UInt8](repeating: 0, count: bytes), tag: tag, routingKey: lane.rawValue)
    }

    private func emptyQueue() -> CoreEventQueue {
        let topology = Topology(prefix: "push")
        return CoreEventQueue(nowQueue: topology.jobQueue(.now), bulkQueue: topology.jobQueue(.bulk))
    }

    /// The tags of each portion; nil for an event that brings no jobs.
    private func portions(_ queue: inout CoreEventQueue, bulkRoom: Int = .max) -> [[UInt64]?] {
        var portions: [[UInt64]?] = []
        while let portion = queue.next(bulkRoom: bulkRoom) {
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
            .jobsReceived([message(1, .soon, bytes: 20_000), message(2, .soon, bytes: 20_000), message(3, .now), message(4, .soon)])
        ])
        let (first, second) = (queue.next(bulkRoom: 0), queue.next(bulkRoom: 0))
        #expect(first.map(tags) == [3])
        #expect(second.map(tags) == [1])
        queue.append(contentsOf: [.published(1, []), .jobsReceived([message(5, .now)])])
        let rest = portions(&queue)
        #expect(rest == [[5], [2, 4], nil])
        #expect(queue.isEmpty)
    }

    @Test("Jobs of bulk go as there is room for them, in their order, and keep nobody else waiting")
    func holdsBulkBack() {
        var queue = emptyQueue()
        queue.append(contentsOf: [.jobsReceived((1...5).map { message($0, .bulk) }), .jobsReceived([message(6, .soon)]), .published(1, [])])
        let others = portions(&queue, bulkRoom: 0)
        #expect(others == [[6], nil])
        #expect(!queue.hasWork(bulkRoom: 0))
        #expect(queue.hasWork(bulkRoom: 1))
        #expect(!queue.isEmpty)
        let two = queue.next(bulkRoom: 2)
        #expect(two.map(tags) == [1, 2])
        queue.append(contentsOf: [.jobsReceived([message(7, .bulk), message(8, .now)])])
        let rest = portions(&queue, bulkRoom: 3)
        #expect(rest == [[8], [3, 4, 5], [7]])
        #expect(queue.isEmpty)
    }

    @Test("Jobs of bulk and everything else take turns, however much room there is")
    func takesTurns() {
        var queue = emptyQueue()
        queue.append(contentsOf: [.jobsReceived((1...3).map { message($0, .bulk, bytes: 30_000) }), .published(1, []), .published(2, [])])
        let all = portions(&queue)
        #expect(Set(all.prefix(4).map { $0 == nil }) == [true, false])
        #expect(zip(all.prefix(4), all.prefix(4).dropFirst()).allSatisfy { ($0 == nil) != ($1 == nil) })
        #expect(all.compactMap(\.self) == [[1], [2], [3]])
    }

    @Test("What waits when the connection that brought it is lost is dropped, wherever it waits: the broker delivers it again")
    func dropsWhatALostConnectionBrought() {
        var queue = emptyQueue()
        let large = (3...6).map { message($0, .soon, bytes: 20_000) }
        queue.append(contentsOf: [.jobsReceived((1...2).map { message($0, .bulk) } + large), .published(1, [])])
        let begun = queue.next(bulkRoom: 0)
        #expect(begun.map(tags) == [3])
        queue.append(contentsOf: [
            .jobsReceived([message(7, .now)]), .controlReceived([]), .jobsReceived([message(8, .now), message(9, .bulk)]),
            .published(2, []), .jobsConnection(isUp: false), .jobsConnection(isUp: true),
            .jobsReceived([message(1, .bulk), message(2, .soon)]),
        ])
        let rest = portions(&queue)
        // What is no job is all there, in its order, and then the first jobs of the next connection.
        #expect(rest.map { $0 == nil } == [true, true, true, true, true, false, false])
        #expect(Set(rest.compactMap(\.self)) == [[1], [2]])
        #expect(queue.isEmpty)
        #expect(queue.count == 0)
    }

    @Test("Jobs of bulk that came behind a word of the control stream wait for room like others, and those of now overtake them")
    func sortsWhatABarrierKept() {
        var queue = emptyQueue()
        let kept = (1...5).map { message($0, .bulk) } + [message(6, .soon), message(7, .now)]
        queue.append(contentsOf: [.controlReceived([]), .jobsReceived(kept), .controlReceived([]), .jobsReceived([message(8, .bulk)])])
        let others = portions(&queue, bulkRoom: 0)
        #expect(others == [nil, [7], [6], nil])
        #expect(!queue.hasWork(bulkRoom: 0))
        let two = queue.next(bulkRoom: 2)
        #expect(two.map(tags) == [1, 2])
        let rest = portions(&queue, bulkRoom: 10)
        #expect(rest == [[3, 4, 5, 8]])
        #expect(queue.isEmpty)
    }

    @Test("Jobs of bulk that wait for room learn of fences and stops before they are taken")
    func letsBulkLearn() {
        for word in [CoreEvent.controlReceived([]), .controlConnection(isUp: false), .stop] {
            var queue = emptyQueue()
            queue.append(contentsOf: [.jobsReceived((1...3).map { message($0, .bulk) }), word])
            let first = portions(&queue, bulkRoom: 0)
            #expect(first == [nil])
            let rest = portions(&queue)
            #expect(rest == [[1, 2, 3]])
        }
    }

    @Test("Nothing overtakes what changes the fate of jobs")
    func keepsOrder() {
        let barriers: [CoreEvent] = [
            .jobsConnection(isUp: false), .controlConnection(isUp: false), .controlReceived([]), .stop,
        ]
        for barrier in barriers {
            var queue = emptyQueue()
            queue.append(contentsOf: [.jobsReceived([message(1, .soon)]), barrier, .jobsReceived([message(2, .now), message(3, .bulk)])])
            let all = portions(&queue)
            let isLost = if case .jobsConnection = barrier { true } else { false }
            let expected: [[UInt64]?] = isLost ? [nil, [2], [3]] : [[1], nil, [2], [3]]
            #expect(all == expected)
            // And once it is through, they may again.
            queue.append(contentsOf: [.jobsReceived([message(4, .bulk)]), .jobsReceived([message(5, .now)])])
            let after = portions(&queue)
            #expect(after == [[5], [4]])
            #expect(queue.isEmpty)
        }
    }

    @Test("A large event is taken in portions, each told whether more of it follows; a job that is larger goes alone")
    func cutsPortions() {
        var queue = emptyQueue()
        queue.append(contentsOf: [.jobsReceived([message(1, .soon, bytes: 50_000)] + (2...11).map { message($0, .soon, bytes: 8_000) })])
        #expect(queue.count == 1)
        var (taken, continued): ([[UInt64]], [Bool]) = ([], [])
        while let portion = queue.next(bulkRoom: 0) {
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
