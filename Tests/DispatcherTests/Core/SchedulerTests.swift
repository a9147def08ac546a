import PushModel
import Testing

@testable import Broker
@testable import Dispatcher

@Suite("Which job is begun next")
struct SchedulerTests {
    private static let limit = 100_000

    private func jobs(_ lane: Lane, _ tags: ClosedRange<UInt64>, bytes: Int = 100) -> [ReceivedMessage] {
        tags.map { Fixture.message([UInt8](repeating: 0, count: bytes), tag: $0, routingKey: lane.rawValue) }
    }

    private func scheduler(deliveries: Int = limit, prefetch: Int = 500) -> Scheduler {
        var rules = CoreRules(topology: Topology(prefix: "push"), source: "/test")
        for lane in Lane.allCases { (rules.deliveries[lane], rules.prefetch[lane]) = (deliveries, prefetch) }
        return Scheduler(rules: rules)
    }

    private func next(_ scheduler: inout Scheduler, _ work: WorkLoad = WorkLoad()) -> [UInt64]? {
        scheduler.next(work)?.messages.map(\.deliveryTag.tag)
    }

    /// The room of `bulk` for the app that asks.
    private func bulkIsBusy(room: Int) -> WorkLoad {
        var work = WorkLoad()
        work.began(AppLaneIndex(lane: .bulk, app: 9), deliveries: Self.limit - room)
        return work
    }

    @Test("Jobs of `now` go before those of other lanes, also between two portions of one read") func nowGoesFirst() {
        var scheduler = scheduler()
        scheduler.append(jobs(.bulk, 1...4, bytes: 20_000) + jobs(.now, 5...6))
        let (first, second) = (next(&scheduler), next(&scheduler))
        #expect(first == [5, 6] && second == [1])
        scheduler.append(jobs(.now, 7...7))
        let third = next(&scheduler)
        #expect(third == [7] && scheduler.hasWork(WorkLoad()))
    }

    @Test("The other lanes take turns") func takesTurns() {
        var scheduler = scheduler()
        scheduler.append(jobs(.bulk, 1...3, bytes: 30_000) + jobs(.soon, 11...13, bytes: 30_000))
        var lanes: [Bool] = []
        while let tags = next(&scheduler) { lanes.append(tags[0] > 10) }
        #expect(lanes.count == 6 && zip(lanes, lanes.dropFirst()).allSatisfy { $0 != $1 })
        #expect(!scheduler.hasWork(WorkLoad()))
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
        let (first, second) = (next(&scheduler, bulkIsBusy(room: 0)), next(&scheduler, bulkIsBusy(room: -1)))
        #expect(first == [5] && second == nil)
        #expect(!scheduler.hasWork(bulkIsBusy(room: 0)) && scheduler.hasWork(bulkIsBusy(room: 1)))
        let (third, fourth) = (next(&scheduler, bulkIsBusy(room: 1)), next(&scheduler, bulkIsBusy(room: 40)))
        #expect(third == [1] && fourth == [2, 3])
    }

    @Test("The apps of a lane take turns, whatever each has sent; one without room delays no other") func appsTakeTurns() {
        let (large, small, late, busy, free) = (UInt16(1), UInt16(2), UInt16(3), UInt16(4), UInt16(5))
        var scheduler = scheduler()
        scheduler.append(
            jobs(.bulk, 1...9, bytes: 30_000), of: large)
        scheduler.append(jobs(.bulk, 11...12), of: small)
        scheduler.append(jobs(.bulk, 13...13), of: late)
        let order = (1...4).map { _ in next(&scheduler) }
        #expect(order == [[1], [11, 12], [13], [2]])
        scheduler.append(jobs(.bulk, 21...21), of: busy)
        scheduler.append(jobs(.bulk, 22...22), of: free)
        var work = WorkLoad()
        for app in [large, busy] { work.began(AppLaneIndex(lane: .bulk, app: app), deliveries: Self.limit / 2 - 10) }
        let begun = next(&scheduler, work)
        #expect(begun == [22])
        #expect(next(&scheduler, work) == nil && !scheduler.hasWork(work))
    }

    @Test("In any sequence no app has more jobs at work than allowed, and an app without jobs at work finds room", arguments: 0..<10)
    func leavesRoomForNewcomers(seed: Int) throws {
        var random = SplitMix64(seed: UInt64(seed))
        var scheduler = scheduler(deliveries: 60, prefetch: 40)
        var work = WorkLoad()
        // The model: the jobs at work of each app.
        var atWork: [UInt16: Int] = [:]
        var waits: [UInt16: Int] = [:]
        var apps: [UInt64: UInt16] = [:]
        for tag in 1...3_000 as ClosedRange<UInt64> {
            if Bool.random(using: &random) {
                let app = UInt16.random(in: 0..<6, using: &random)
                scheduler.append(jobs(.now, tag...tag), of: app)
                (apps[tag], waits[app]) = (app, waits[app, default: 0] + 1)
            } else if let app = atWork.filter({ $0.value > 0 }).keys.sorted().randomElement(using: &random) {
                atWork[app, default: 0] -= 1
                work.settled(AppLaneIndex(lane: .now, app: app), deliveries: 1)
            }
            while let begun = next(&scheduler, work) {
                for tag in begun {
                    let app = try #require(apps[tag])
                    #expect(atWork[app, default: 0] < 40 - atWork.values.reduce(0, +))
                    atWork[app, default: 0] += 1
                    waits[app, default: 0] -= 1
                    work.began(AppLaneIndex(lane: .now, app: app), deliveries: 1)
                }
            }
            for (app, count) in waits where count > 0 { #expect(atWork[app, default: 0] > 0, "\(app) has nothing at work and waits") }
        }
    }

    @Test("When the connection is lost, the scheduler drops waiting jobs, and the broker delivers them again")
    func dropsWhatALostConnectionBrought() {
        var scheduler = scheduler()
        scheduler.append(jobs(.bulk, 1...2) + jobs(.now, 3...3))
        let dropped = (scheduler.removeAll(of: .now) + scheduler.removeAll(of: .bulk)).map(\.deliveryTag.tag)
        let none = next(&scheduler)
        #expect(dropped == [3, 1, 2] && none == nil && !scheduler.hasWork(WorkLoad()))
    }
}

extension Scheduler {
    fileprivate mutating func append(_ messages: [ReceivedMessage], of app: UInt16 = 0) {
        for message in messages { append(message, of: app) }
    }
}
