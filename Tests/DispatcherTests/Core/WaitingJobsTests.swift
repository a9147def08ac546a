import PushModel
import Testing

@testable import Broker
@testable import Dispatcher

@Suite("Jobs that wait for the core")
struct WaitingJobsTests {
    private func jobs(_ lane: Lane, _ tags: ClosedRange<UInt64>, bytes: Int = 100) -> [ReceivedMessage] {
        tags.map { Fixture.message([UInt8](repeating: 0, count: bytes), tag: $0, routingKey: lane.rawValue) }
    }

    private func next(_ waiting: inout WaitingJobs, room: [Lane: Int] = [:]) -> [UInt64]? {
        waiting.next { room[$0] ?? .max }?.map(\.receipt.tag)
    }

    @Test("Jobs of now go before those of other lanes, also between two portions of one read") func nowGoesFirst() {
        var waiting = WaitingJobs(topology: Topology(prefix: "push"))
        waiting.append(jobs(.bulk, 1...4, bytes: 20_000) + jobs(.now, 5...6))
        let (first, second) = (next(&waiting), next(&waiting))
        #expect(first == [5, 6] && second == [1])
        waiting.append(jobs(.now, 7...7))
        let third = next(&waiting)
        #expect(third == [7] && !waiting.isEmpty)
    }

    @Test("The other lanes take turns") func takesTurns() {
        var waiting = WaitingJobs(topology: Topology(prefix: "push"))
        waiting.append(jobs(.bulk, 1...3, bytes: 30_000) + jobs(.soon, 11...13, bytes: 30_000))
        var lanes: [Bool] = []
        while let tags = next(&waiting) { lanes.append(tags[0] > 10) }
        #expect(lanes.count == 6 && zip(lanes, lanes.dropFirst()).allSatisfy { $0 != $1 })
        #expect(waiting.isEmpty)
    }

    @Test("A portion has at most 32 KiB of jobs in their order; a job that is larger goes alone") func cutsPortions() {
        var waiting = WaitingJobs(topology: Topology(prefix: "push"))
        waiting.append(jobs(.soon, 1...1, bytes: 50_000) + jobs(.soon, 2...11, bytes: 8_000))
        var portions: [[UInt64]] = []
        while let tags = next(&waiting) { portions.append(tags) }
        #expect(portions == [[1], [2, 3, 4, 5], [6, 7, 8, 9], [10, 11]])
    }

    @Test("A lane without room gives nothing, and holds up no other lane; with little room it gives little") func waitsForRoom() {
        var waiting = WaitingJobs(topology: Topology(prefix: "push"))
        waiting.append(jobs(.bulk, 1...4, bytes: 1_000) + jobs(.soon, 5...5))
        let (first, second) = (next(&waiting, room: [.bulk: 0]), next(&waiting, room: [.bulk: -1]))
        #expect(first == [5] && second == nil)
        #expect(!waiting.isEmpty && !waiting.hasWork { $0 == .bulk ? 0 : 1 } && waiting.hasWork { $0 == .bulk ? 1 : 0 })
        let (third, fourth) = (next(&waiting, room: [.bulk: 1]), next(&waiting, room: [.bulk: 20]))
        #expect(third == [1] && fourth == [2, 3])
    }

    @Test("What waits when its connection is lost is dropped: the broker delivers it again") func dropsWhatALostConnectionBrought() {
        var waiting = WaitingJobs(topology: Topology(prefix: "push"))
        waiting.append(jobs(.bulk, 1...2) + jobs(.now, 3...3))
        waiting.removeAll()
        #expect(waiting.isEmpty && next(&waiting) == nil)
    }
}
