import PushModel
import Testing

@testable import Broker
@testable import Dispatcher

@Suite("Which job is begun next")
struct SchedulerTests {
    private func jobs(_ lane: Lane, _ tags: ClosedRange<UInt64>, bytes: Int = 100) -> [ReceivedMessage] {
        tags.map { Fixture.message([UInt8](repeating: 0, count: bytes), tag: $0, routingKey: lane.rawValue) }
    }

    private func scheduler() -> Scheduler {
        var rules = CoreRules(topology: Topology(prefix: "push"), source: "/test")
        for lane in Lane.allCases { rules.deliveries[lane] = 100_000 }
        return Scheduler(rules: rules)
    }

    /// - Parameter room: where a lane has less than much.
    private func next(_ scheduler: inout Scheduler, room: [Lane: Int] = [:]) -> [UInt64]? {
        scheduler.next(atWork: room.mapValues { 100_000 - $0 })?.map(\.receipt.tag)
    }

    private func hasWork(_ scheduler: Scheduler, bulk room: Int = 100_000) -> Bool { scheduler.hasWork(atWork: [.bulk: 100_000 - room]) }

    @Test("Jobs of now go before those of other lanes, also between two portions of one read") func nowGoesFirst() {
        var scheduler = scheduler()
        scheduler.append(jobs(.bulk, 1...4, bytes: 20_000) + jobs(.now, 5...6))
        let (first, second) = (next(&scheduler), next(&scheduler))
        #expect(first == [5, 6] && second == [1])
        scheduler.append(jobs(.now, 7...7))
        let third = next(&scheduler)
        #expect(third == [7] && hasWork(scheduler))
    }

    @Test("The other lanes take turns") func takesTurns() {
        var scheduler = scheduler()
        scheduler.append(jobs(.bulk, 1...3, bytes: 30_000) + jobs(.soon, 11...13, bytes: 30_000))
        var lanes: [Bool] = []
        while let tags = next(&scheduler) { lanes.append(tags[0] > 10) }
        #expect(lanes.count == 6 && zip(lanes, lanes.dropFirst()).allSatisfy { $0 != $1 })
        #expect(!hasWork(scheduler))
    }

    @Test("A portion has at most 32 KiB of jobs in their order; a job that is larger goes alone") func cutsPortions() {
        var scheduler = scheduler()
        scheduler.append(jobs(.soon, 1...1, bytes: 50_000) + jobs(.soon, 2...11, bytes: 8_000))
        var portions: [[UInt64]] = []
        while let tags = next(&scheduler) { portions.append(tags) }
        #expect(portions == [[1], [2, 3, 4, 5], [6, 7, 8, 9], [10, 11]])
    }

    @Test("A lane without room gives nothing, and holds up no other lane; with little room it gives little") func waitsForRoom() {
        var scheduler = scheduler()
        scheduler.append(jobs(.bulk, 1...4, bytes: 1_000) + jobs(.soon, 5...5))
        let (first, second) = (next(&scheduler, room: [.bulk: 0]), next(&scheduler, room: [.bulk: -1]))
        #expect(first == [5] && second == nil)
        #expect(!hasWork(scheduler, bulk: 0) && hasWork(scheduler, bulk: 1))
        let (third, fourth) = (next(&scheduler, room: [.bulk: 1]), next(&scheduler, room: [.bulk: 20]))
        #expect(third == [1] && fourth == [2, 3])
    }

    @Test("What waits when its connection is lost is dropped: the broker delivers it again") func dropsWhatALostConnectionBrought() {
        var scheduler = scheduler()
        scheduler.append(jobs(.bulk, 1...2) + jobs(.now, 3...3))
        let dropped = scheduler.removeAll().map(\.receipt.tag)
        let none = next(&scheduler)
        #expect(dropped == [3, 1, 2] && none == nil)
    }
}
