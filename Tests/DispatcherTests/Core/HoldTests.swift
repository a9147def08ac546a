import PushModel
import Testing

@testable import APNs
@testable import Broker
@testable import Dispatcher

@Suite("A hold keeps deliveries")
struct HoldTests {
    private let id = PushID(high: 0xb, low: 1)

    private func hold(_ scope: HoldScope, id: PushID? = nil, endsAt: Int64? = nil, at: Int64 = Fixture.start) -> ControlMessage {
        .hold(id: id ?? self.id, scope: scope, endsAt: endsAt, at: at)
    }

    /// The next retry message as the broker returns it, after its outcome was confirmed.
    private func giveBack(_ bench: CoreBench, tag: UInt64, after milliseconds: Int64 = 0) throws {
        let message = try #require(RetryDelay.allCases.flatMap { bench.messages(to: bench.topology.retryExchange($0)) }.first)
        while !bench.published.isEmpty { bench.confirmNext() }
        if milliseconds > 0 { bench.tick(after: milliseconds) }
        bench.handle(.jobsReceived([Fixture.message(message.body, tag: tag, routingKey: message.routingKey, headers: message.headers)]))
    }

    @Test("A hold that ends between two ticks is noticed at the next one, though another hold was read meanwhile")
    func endsBesideAnother() {
        var book = HoldBook()
        func hold(_ number: UInt64, endsAt: Int64?) -> HoldBook.Hold {
            HoldBook.Hold(id: PushID(high: 0, low: number), scope: .app(0), endsAt: endsAt, readAt: 0)
        }
        _ = book.add(hold(1, endsAt: 1_000), wall: 0)
        _ = book.add(hold(2, endsAt: nil), wall: 0)
        let isNew = book.add(hold(2, endsAt: nil), wall: 1_000)
        #expect(!isNew)
        // The ended one is read again before the tick.
        let isAgain = book.add(hold(1, endsAt: 1_000), wall: 1_010)
        #expect(!isAgain)
        let change = book.keepTime(wall: 1_050)
        #expect(change.isOther && change.over.map(\.low) == [1])
    }

    @Test(
        "A hold keeps its scope and nothing else",
        arguments: [
            (HoldScope.everything, [Lane]()), (.app(Fixture.shop), []), (.lane(.now), [.bulk]), (.appLane(Fixture.shop, .bulk), [.now]),
            (.notification(Fixture.shop, PushID(high: 0xa, low: 7)), [.bulk]), (.app(Fixture.other), [.now, .bulk]),
            (.appLane(Fixture.other, .now), [.now, .bulk]), (.notification(Fixture.other, PushID(high: 0xa, low: 7)), [.now, .bulk]),
        ])
    func scopes(_ scope: HoldScope, _ sent: [Lane]) throws {
        let bench = try CoreBench()
        bench.obey(hold(scope))
        bench.take(Fixture.job([Fixture.delivery(1)], notification: 7, lane: .now))
        bench.take(Fixture.job([Fixture.delivery(2)], notification: 8, lane: .bulk), tag: 2)
        #expect(bench.submitted.map(\.batch.lane) == sent)
        #expect(bench.retries(after: .fiveSeconds).count == 2 - sent.count)
        #expect(Set(bench.events.map(\.outcome)) == (sent.count == 2 ? [] : [.held]))
    }

    @Test("Held deliveries wait in a delayed queue without using an attempt or memory, and are sent when the hold is lifted")
    func goesRound() throws {
        let bench = try CoreBench()
        bench.obey(hold(.app(Fixture.shop)))
        bench.take(Fixture.job([Fixture.delivery(1), Fixture.delivery(2)]))
        let event = try #require(bench.events.first)
        #expect(event.outcome == .held && !event.isFinal && event.deliveries.count == 2)
        #expect(event.deliveries.allSatisfy { $0.reason == "app_held" && $0.retryAt == bench.now + 5_000 && $0.attempt == 1 })
        #expect(bench.retries(after: .fiveSeconds).map(\.attempt) == [0])
        for tag in 2...4 as ClosedRange<UInt64> {
            try giveBack(bench, tag: tag)
            #expect(bench.events.isEmpty, "the dispatcher reports the same hold once")
            #expect(bench.acknowledged.count == Int(tag) - 1, "the job is settled, and the dispatcher keeps nothing")
            #expect(bench.core.jobs.isEmpty)
        }
        bench.obey(.unhold(id: id, at: bench.now))
        try giveBack(bench, tag: 5)
        #expect(bench.submitted.map(\.batch.requests.count) == [2])
        #expect(bench.retries().isEmpty)
    }

    @Test("The dispatcher reports another hold on the same deliveries too")
    func saysTheNextHold() throws {
        let bench = try CoreBench()
        bench.obey(hold(.app(Fixture.shop)))
        bench.take(Fixture.job([Fixture.delivery(1)]))
        bench.obey(.unhold(id: id, at: bench.now), hold(.lane(.now), id: PushID(high: 0xb, low: 2)))
        try giveBack(bench, tag: 2)
        #expect(bench.events.map { $0.deliveries.first?.reason } == ["lane_held"])
    }

    @Test("A hold on an update keeps a job that sends it again, on each of its rounds, until the hold is lifted") func copies() throws {
        let bench = try CoreBench()
        let update = PushID(high: 0xa, low: 8)
        bench.obey(hold(.notification(Fixture.shop, update)))
        var copy = Fixture.job([Fixture.delivery(1)], notification: 7)
        copy.original = update
        bench.take(copy)
        #expect(bench.events.map { $0.deliveries.first?.reason } == ["notification_held"])
        for tag in 2...3 as ClosedRange<UInt64> {
            try giveBack(bench, tag: tag)
            #expect(bench.submitted.isEmpty)
            #expect(bench.retries(after: .fiveSeconds).map(\.original) == [update], "the dispatcher writes the job anew")
        }
        bench.obey(.unhold(id: id, at: bench.now))
        try giveBack(bench, tag: 4)
        #expect(bench.submitted.map(\.batch.requests.count) == [1])
    }

    @Test("A hold also keeps deliveries that a pool took and did not send, and no longer than it is in force")
    func keepsAtTheGate() throws {
        let bench = try CoreBench()
        bench.take(Fixture.job([Fixture.delivery(1)], notification: 7))
        bench.take(Fixture.job([Fixture.delivery(2)], app: Fixture.other, notification: 8), tag: 2)
        bench.obey(hold(.app(Fixture.shop)))
        let (held, free) = (bench.submitted[0].batch, bench.submitted[1].batch)
        #expect(bench.gate.stopReason(for: held.requests[0], of: held) == .held)
        #expect(bench.gate.stopReason(for: free.requests[0], of: free) == nil)
        bench.obey(.unhold(id: id, at: bench.now))
        #expect(bench.gate.stopReason(for: held.requests[0], of: held) == nil)
        bench.obey(hold(.app(Fixture.shop), id: PushID(high: 0xb, low: 2)))
        bench.finishNext { _ in .stopped(.held) }
        #expect(bench.submitted.count == 1, "it is not handed to the pool again")
        #expect(bench.retries(after: .fiveSeconds).count == 1)
        #expect(bench.core.jobs.count == 1)
    }

    @Test("A delivery that is expired, cancelled or fenced has that outcome, held or not")
    func siftsBefore() throws {
        let bench = try CoreBench()
        bench.obey(
            hold(.app(Fixture.shop)), .cancel(app: Fixture.shop, notification: PushID(high: 0xa, low: 8), at: bench.now),
            .fence(app: Fixture.shop, installation: PushID(high: 9, low: 9), epochsBelow: 3, at: bench.now))
        bench.take(Fixture.job([Fixture.delivery(1)], notification: 7, expiresAt: bench.now))
        bench.take(Fixture.job([Fixture.delivery(2)], notification: 8), tag: 2)
        bench.take(Fixture.job([Fixture.delivery(3, installation: PushID(high: 9, low: 9))], notification: 9), tag: 3)
        #expect(bench.events.map(\.outcome) == [.expired, .cancelled, .fenced])
        #expect(bench.retries().isEmpty)
    }

    @Test(
        "A delivery that is held until its expiry comes back before it, and expires; its sender chose the time, so it makes no dead letter")
    func expires() throws {
        let bench = try CoreBench()
        bench.obey(hold(.app(Fixture.shop)))
        bench.take(Fixture.job([Fixture.delivery(1)], notification: 7, expiresAt: bench.now + 4_000))
        #expect(bench.retries(after: .oneSecond).count == 1)
        bench.take(Fixture.job([Fixture.delivery(2)], notification: 8, expiresAt: bench.now + 1_000), tag: 2)
        #expect(bench.events.map(\.outcome) == [.held, .expired])
        #expect(bench.deadLetters.isEmpty)
    }

    @Test("A hold that ends by itself releases its jobs at its end")
    func endsByItself() throws {
        let bench = try CoreBench()
        bench.obey(hold(.app(Fixture.shop), endsAt: bench.now + 2_000))
        bench.take(Fixture.job([Fixture.delivery(1)]))
        #expect(bench.retries(after: .oneSecond).count == 1, "it is back before the hold ends")
        try giveBack(bench, tag: 2, after: 1_999)
        #expect(bench.submitted.isEmpty)
        try giveBack(bench, tag: 3, after: 1)
        #expect(bench.core.control.holds.isEmpty)
        #expect(bench.submitted.count == 1)
    }

    @Test("A repeated hold goes on, an unrepeated one ends after the longest life of a job, and a lifted one never comes back")
    func isToldAgain() throws {
        let bench = try CoreBench()
        let other = PushID(high: 0xb, low: 2)
        let hours: Int64 = 3_600_000
        bench.obey(hold(.app(Fixture.shop)), hold(.lane(.bulk), id: other))
        bench.tick(after: 40 * hours)
        bench.obey(hold(.app(Fixture.shop), at: bench.now))
        bench.tick(after: 40 * hours)
        #expect(bench.core.control.holds.count == 1)
        bench.take(Fixture.job([Fixture.delivery(1)], expiresAt: bench.now + hours))
        #expect(bench.submitted.isEmpty)
        bench.obey(.unhold(id: id, at: bench.now), hold(.app(Fixture.shop), at: bench.now + 1))
        #expect(bench.core.control.holds.isEmpty, "two processes publish, and the later message need not be the newer one")
    }

    @Test("A dispatcher that starts knows every hold before it takes a job, and waits for no lifted one")
    func startsKnowing() throws {
        let bench = try CoreBench(isCaughtUp: false)
        let lifted = PushID(high: 0xb, low: 2)
        bench.handle(.controlConnection(isUp: true))
        bench.obey(hold(.app(Fixture.shop)), hold(.app(Fixture.other), id: lifted), .unhold(id: lifted, at: bench.now))
        try bench.returnMarker()
        bench.take(Fixture.job([Fixture.delivery(1)]))
        bench.take(Fixture.job([Fixture.delivery(2)], app: Fixture.other), tag: 2)
        #expect(bench.submitted.map(\.batch.requests.count) == [1])
    }

    @Test("Many held jobs come back less and less often, few come back soon")
    func paces() {
        var pace = HoldPace()
        var delays: [RetryDelay] = []
        for _ in 0..<2000 { delays.append(pace.delay(until: nil, at: 0)) }
        let counts = Dictionary(grouping: delays) { $0 }.mapValues(\.count)
        #expect(counts == [.fiveSeconds: 50, .thirtySeconds: 500, .twoMinutes: 1000, .tenMinutes: 450])
        for (endsAt, now, expected) in [
            (nil, HoldPace.window - 1, .tenMinutes), (nil, HoldPace.window, .fiveSeconds),
            (HoldPace.window + 4_999, HoldPace.window, .oneSecond),
            (HoldPace.window + 1, HoldPace.window, .oneSecond),
        ] as [(Int64?, Int64, RetryDelay)] {
            let delay = pace.delay(until: endsAt, at: now)
            #expect(delay == expected)
        }
    }

    @Test("Of several holds on the same, the one that lasts longest counts")
    func keepsTheLongest() {
        var book = HoldBook()
        func hold(_ number: UInt64, _ scope: HoldBook.Scope, endsAt: Int64?) -> HoldBook.Hold {
            HoldBook.Hold(id: PushID(high: 0, low: number), scope: scope, endsAt: endsAt, readAt: 0)
        }
        func keeper() -> UInt64? { book.hold(app: 0, lane: .now, notification: id)?.id.low }
        #expect(keeper() == nil)
        for (number, scope, endsAt) in [(1, .app(0), 100), (2, .app(0), 50), (3, .lane(.now), 200), (4, .app(1), nil)]
            as [(UInt64, HoldBook.Scope, Int64?)]
        {
            let isNew = book.add(hold(number, scope, endsAt: endsAt), wall: 0)
            #expect(isNew)
        }
        #expect(keeper() == 3)
        let ended = book.keepTime(wall: 100)
        #expect(ended.over.map(\.low).sorted() == [1, 2] && ended.isOther)
        let isLifted = book.lift(PushID(high: 0, low: 3), at: 100)
        #expect(isLifted)
        #expect(keeper() == nil)
        #expect(!book.isEmpty)
        let isLate = book.add(hold(5, .everything, endsAt: 100), wall: 100)
        #expect(!isLate, "one whose time is over when it is read was never in force")
    }
}
