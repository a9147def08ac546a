import PushModel
import Testing

@testable import APNs
@testable import Broker
@testable import Dispatcher

/// How far a clock is set, in milliseconds: an hour, four days (longer than any job lives) and a year, both ways.
enum ClockStep {
    static let hour: Int64 = 3_600_000
    /// The last millisecond of the year 9999, in UNIX milliseconds.
    static let never: Int64 = 253_402_300_799_999
    static let all: [Int64] = [-8760, -96, -1, 1, 96, 8760].map { $0 * hour }
    static let back = all.filter { $0 < 0 }
    /// Of the token service that wrote a message, and of the dispatcher.
    static let pairs = all.flatMap { step in Phase.allCases.map { (step, $0) } }

    /// When the dispatcher's clock is wrong.
    enum Phase: CaseIterable, Sendable {
        /// From the start until the control stream has been read.
        case atStart
        /// For a while, after the control stream has been read.
        case whileRunning
    }
}

@Suite("A dispatcher whose clock is set", .timeLimit(.minutes(2)))
struct ClockTests {
    private let installation = PushID(high: 9, low: 9)
    private let hold = PushID(high: 0xb, low: 1)
    private static let hour = ClockStep.hour

    /// A dispatcher that has read `messages` from the control stream. Its clock was wrong for a while and is right now.
    private func bench(
        _ messages: ControlMessage..., wrongBy step: Int64, _ phase: ClockStep.Phase, for milliseconds: Int64 = 1_000
    ) throws -> CoreBench {
        let bench = try CoreBench(isCaughtUp: false)
        if phase == .atStart { bench.setClock(by: step) }
        bench.handle(.controlConnection(isUp: true))
        for message in messages { bench.obey(message) }
        try bench.returnMarker()
        if phase == .whileRunning { bench.setClock(by: step) }
        for _ in 0..<3 { bench.tick(after: milliseconds / 3) }
        bench.setClock(by: -step)
        bench.tick()
        try openGate(bench)
        return bench
    }

    /// After a doubt, the marker comes back within a few milliseconds.
    private func openGate(_ bench: CoreBench) throws {
        for _ in 0..<3 where !bench.markers.isEmpty {
            bench.now += 5
            try bench.returnMarker()
        }
        #expect(bench.gate.isOpen)
    }

    private func fence(at moment: Int64 = Fixture.start) -> ControlMessage {
        .fence(app: Fixture.shop, installation: installation, epochsBelow: 2, at: moment)
    }

    private func cancel(at moment: Int64 = Fixture.start) -> ControlMessage {
        .cancel(app: Fixture.shop, notification: PushID(high: 0xa, low: 7), at: moment)
    }

    private func reconnects(_ bench: CoreBench) -> Int {
        bench.others.count { if case .reconnectControl = $0 { true } else { false } }
    }

    // MARK: Fences, cancellations and holds

    @Test("A fence and a cancellation that were read while the clock was wrong stop jobs afterwards", arguments: ClockStep.pairs)
    func keepsFences(step: Int64, phase: ClockStep.Phase) throws {
        let bench = try bench(fence(), cancel(), wrongBy: step, phase)
        bench.take(Fixture.job([Fixture.delivery(1, installation: installation, ownerEpoch: 1)], notification: 8))
        bench.take(Fixture.job([Fixture.delivery(2)], notification: 7), tag: 2)
        #expect(bench.submitted.isEmpty)
        #expect(bench.events.map(\.outcome) == [.fenced, .cancelled])
    }

    @Test("While the clock is wrong, no job goes to a former owner, and no cancelled one is sent", arguments: ClockStep.pairs)
    func keepsFencesMeanwhile(step: Int64, phase: ClockStep.Phase) throws {
        let bench = try CoreBench(isCaughtUp: false)
        if phase == .atStart { bench.setClock(by: step) }
        bench.handle(.controlConnection(isUp: true))
        bench.obey(fence(), cancel())
        try bench.returnMarker()
        if phase == .whileRunning { bench.setClock(by: step) }
        for _ in 0..<3 { bench.tick(after: 100) }
        try openGate(bench)
        // The longest life of a job.
        let end = Fixture.start + 72 * Self.hour
        bench.take(Fixture.job([Fixture.delivery(1, installation: installation, ownerEpoch: 1)], notification: 8, expiresAt: end))
        bench.take(Fixture.job([Fixture.delivery(2)], notification: 7, expiresAt: end), tag: 2)
        #expect(bench.submitted.isEmpty)
        #expect(!bench.events.contains { !$0.isFinal })
        #expect(bench.events.flatMap(\.deliveries).count == 2)
    }

    @Test("Control messages of a writer whose clock is wrong are obeyed", arguments: ClockStep.all)
    func obeysWrongWriters(step: Int64) throws {
        let bench = try CoreBench()
        let written = bench.now + step
        bench.obey(
            fence(at: written), cancel(at: written), .hold(id: hold, scope: .app(Fixture.other), endsAt: nil, at: written))
        bench.tick(after: 1_000)
        bench.take(Fixture.job([Fixture.delivery(1, installation: installation, ownerEpoch: 1)], notification: 8))
        bench.take(Fixture.job([Fixture.delivery(2)], notification: 7), tag: 2)
        bench.take(Fixture.job([Fixture.delivery(3)], app: Fixture.other, notification: 9), tag: 3)
        #expect(bench.submitted.isEmpty)
        #expect(bench.events.map(\.outcome) == [.fenced, .cancelled, .held])
        bench.obey(.unhold(id: hold, at: written + 1))
        bench.take(Fixture.job([Fixture.delivery(4)], app: Fixture.other, notification: 10), tag: 4)
        #expect(bench.submitted.count == 1)
    }

    @Test("A hold that lasts is in force after the clock was wrong, also if it has an end", arguments: ClockStep.pairs)
    func keepsHolds(step: Int64, phase: ClockStep.Phase) throws {
        for endsAt in [nil, Fixture.start + 48 * Self.hour] as [Int64?] {
            let bench = try bench(
                .hold(id: hold, scope: .app(Fixture.shop), endsAt: endsAt, at: Fixture.start), wrongBy: step, phase)
            bench.take(Fixture.job([Fixture.delivery(1)]))
            #expect(bench.submitted.isEmpty)
            #expect(bench.retries().count == 1)
        }
    }

    @Test("A hold that has ended is not in force after the clock was wrong", arguments: ClockStep.pairs)
    func endsHolds(step: Int64, phase: ClockStep.Phase) throws {
        let bench = try bench(
            .hold(id: hold, scope: .app(Fixture.shop), endsAt: Fixture.start + 500, at: Fixture.start), wrongBy: step, phase,
            for: 3_000)
        bench.take(Fixture.job([Fixture.delivery(1)]))
        #expect(bench.submitted.count == 1)
    }

    @Test("A held job comes back after ten minutes at the latest, whatever the clock shows", arguments: ClockStep.all)
    func pacesHeldJobs(step: Int64) {
        var pace = HoldPace()
        let start = Fixture.start
        for _ in 0..<2_000 { _ = pace.delay(until: nil, at: start) }
        let first = pace.delay(until: start + 48 * Self.hour, at: start + step)
        #expect(first <= .fiveSeconds, "a jump begins a new window")
        let delays = (0..<2_000).map { _ in pace.delay(until: start + 48 * Self.hour, at: start + step) }
        #expect(delays.allSatisfy { $0 <= .tenMinutes })
    }

    // MARK: The control stream

    @Test("A jump while a marker is under way costs a few markers at most", arguments: ClockStep.all)
    func provesAgain(step: Int64) throws {
        let bench = try CoreBench(isCaughtUp: false)
        bench.handle(.controlConnection(isUp: true))
        bench.take(Fixture.job([Fixture.delivery(1)], expiresAt: ClockStep.never))
        bench.setClock(by: step)
        try openGate(bench)
        #expect(bench.submitted.count == 1)
    }

    @Test("If a marker is lost, the reader connects anew within seconds after a jump", arguments: ClockStep.all)
    func readsAnew(step: Int64) throws {
        let bench = try CoreBench(isCaughtUp: false)
        bench.handle(.controlConnection(isUp: true))
        try bench.confirmMarker()
        bench.setClock(by: step)
        for _ in 0..<30 { bench.tick(after: 100) }
        #expect(reconnects(bench) > 0)
    }

    @Test("A dispatcher at rest notices a silent broker within two seconds after a jump", arguments: ClockStep.all)
    func noticesSilence(step: Int64) throws {
        let bench = try CoreBench { $0.heartbeatInterval = 200 }
        bench.tick(after: 200)
        bench.setClock(by: step)
        for _ in 0..<20 { bench.tick(after: 100) }
        #expect(!bench.gate.isOpen)
        bench.confirmNext()
        try openGate(bench)
        // The next heartbeat goes out as soon as before.
        #expect(bench.published.isEmpty)
        for _ in 0..<3 { bench.tick(after: 100) }
        #expect(bench.published.map { $0.messages.map(\.routingKey) } == [[bench.topology.heartbeatQueue]])
    }

    @Test(
        "After a time without a tick, sending waits for a marker: a frozen process may not have read a fence yet", arguments: [2_000, hour])
    func doubtsAfterFreeze(pause: Int64) throws {
        let bench = try CoreBench()
        bench.take(Fixture.job([Fixture.delivery(1, installation: installation, ownerEpoch: 1)], notification: 8))
        let batch = try #require(bench.submitted.first?.batch)
        for _ in 0..<10 { bench.tick(after: 100) }
        bench.now += pause
        bench.handle(.resumed)
        // The sockets are read in any order.
        bench.take(Fixture.job([Fixture.delivery(2, installation: installation, ownerEpoch: 1)], notification: 9), tag: 2)
        #expect(bench.submitted.count == 1)
        #expect(bench.gate.stopReason(for: batch.requests[0], of: batch) == .held)
        bench.obey(fence(at: bench.now))
        try openGate(bench)
        #expect(bench.submitted.count == 1)
        #expect(bench.events.map(\.outcome) == [.fenced])
    }

    // MARK: Waiting

    @Test("A job that waits here for the control stream moves on in time after a jump", arguments: ClockStep.all)
    func movesWaiting(step: Int64) throws {
        let bench = try CoreBench()
        bench.handle(.controlConnection(isUp: false))
        bench.take(Fixture.job([Fixture.delivery(1)], expiresAt: ClockStep.never))
        bench.setClock(by: step)
        for _ in 0..<61 { bench.tick(after: 1_000) }
        #expect(bench.retries().count == 1)
        while !bench.published.isEmpty { bench.confirmNext() }
        #expect(bench.acknowledged.count == 1)
    }

    @Test("While the broker refuses outcomes, it is asked again within seconds after a jump", arguments: ClockStep.all)
    func probes(step: Int64) throws {
        let bench = try CoreBench()
        bench.take(Fixture.job([Fixture.delivery(1)]))
        bench.finishNext(200)
        bench.confirmNext(.confirmedElsewhere)
        bench.setClock(by: step)
        for _ in 0..<15 { bench.tick(after: 100) }
        #expect(bench.published.count == 1)
        bench.confirmNext(.confirmed)
        #expect(bench.core.book.refusal == nil)
        try openGate(bench)
    }

    @Test("A message that the broker refused is published again within a second after a jump", arguments: ClockStep.all)
    func publishesAgain(step: Int64) throws {
        let bench = try CoreBench()
        bench.take(Fixture.job([Fixture.delivery(1)]))
        bench.finishNext(200)
        bench.confirmNext(.failed(.nacked))
        bench.setClock(by: step)
        for _ in 0..<5 { bench.tick(after: 100) }
        #expect(bench.published.count == 1)
        bench.confirmNext()
        #expect(bench.acknowledged.count == 1)
    }

    @Test("Outcomes leave at once after a jump", arguments: ClockStep.all)
    func flushes(step: Int64) throws {
        let bench = try CoreBench()
        bench.take(Fixture.job([Fixture.delivery(1)]))
        bench.take(Fixture.job([Fixture.delivery(2)], notification: 8), tag: 2)
        bench.finishNext(200)
        #expect(bench.published.count == 1)
        bench.setClock(by: step)
        bench.now += CoreRules.gatheringPause
        let batch = try #require(bench.submitted.first?.batch)
        bench.handle(
            .batchFinished(
                APNsFinishedBatch(
                    batch: batch,
                    answers: batch.requests.map {
                        APNsAnswer(
                            index: $0.index, sentAt: bench.now,
                            result: .response(status: 200, reason: nil, timestamp: nil, retryAfter: nil))
                    })), flush: false)
        bench.core.flushIfDue(at: bench.now)
        let published = bench.core.takeActions().count { if case .publish = $0 { true } else { false } }
        #expect(published == 1)
    }

    @Test("A device that APNs throttles waits for a quarter of an hour at most after a jump", arguments: ClockStep.all)
    func sparesThrottled(step: Int64) throws {
        let bench = try CoreBench()
        bench.take(Fixture.job([Fixture.delivery(1)], expiresAt: ClockStep.never))
        bench.finishNext(429, "TooManyRequests", retryAfter: .seconds(100))
        bench.setClock(by: step)
        bench.tick()
        try openGate(bench)
        bench.take(Fixture.job([Fixture.delivery(1)], notification: 8, expiresAt: ClockStep.never), tag: 2)
        if bench.submitted.isEmpty {
            bench.now += 15 * 60_000
            bench.take(Fixture.job([Fixture.delivery(1)], notification: 9, expiresAt: ClockStep.never), tag: 3)
        }
        #expect(bench.submitted.count == 1)
    }

    @Test("An app whose pool is slow is found within seconds after a jump", arguments: ClockStep.all)
    func findsSlow(step: Int64) throws {
        let bench = try CoreBench { $0.prefetch = [.now: 8, .soon: 8, .bulk: 8] }
        func take(_ tag: UInt64, _ app: AppSlug) {
            let job = Fixture.job([Fixture.delivery(Int(tag))], app: app, notification: tag, lane: .bulk, expiresAt: ClockStep.never)
            bench.take(job, tag: tag)
        }
        for tag in 1...6 as ClosedRange<UInt64> { take(tag, Fixture.shop) }
        #expect(bench.submitted.count == 4)
        bench.setClock(by: step)
        for _ in 0..<30 { bench.tick(after: 100) }
        take(7, Fixture.shop)
        #expect(!bench.retries().isEmpty)
        take(8, Fixture.other)
        #expect(bench.submitted.count == 5, "the other app's job finds room")
    }

    // MARK: The end of a delivery

    @Test("Nothing is sent after its expiry by the dispatcher's own clock, and each delivery has an outcome", arguments: ClockStep.all)
    func expires(step: Int64) throws {
        let lifetime = 24 * Self.hour
        let bench = try CoreBench()
        bench.handle(.controlConnection(isUp: false))
        bench.take(Fixture.job([Fixture.delivery(1)], notification: 1, expiresAt: Fixture.start + lifetime))
        bench.setClock(by: step)
        bench.take(Fixture.job([Fixture.delivery(2)], notification: 2, expiresAt: Fixture.start + lifetime), tag: 2)
        bench.handle(.controlConnection(isUp: true))
        bench.now += 5
        try openGate(bench)
        if step < lifetime {
            #expect(bench.submitted.count == 2)
        } else {
            #expect(bench.submitted.isEmpty)
            #expect(Set(bench.events.map(\.outcome)) == [.expired])
            #expect(bench.events.flatMap(\.deliveries).count == 2)
        }
    }

    @Test("A call is not sent a second time if it seems older than it may be", arguments: ClockStep.all)
    func secondCopies(step: Int64) throws {
        let bench = try CoreBench()
        bench.take(Fixture.job([Fixture.delivery(1)], expiresAt: ClockStep.never, onUnknown: .resendOnce))
        bench.setClock(by: step)
        bench.finishNext { _ in .unknown(.connectionLost) }
        #expect(bench.messages(to: bench.topology.jobsExchange).count == (step < 0 ? 1 : 0))
        #expect(bench.events.map(\.outcome) == [.unknown])
    }

    /// The step of a job's way after which the clock jumps.
    enum Place: CaseIterable, Sendable { case arrived, sent, retried, unconfirmed }

    @Test("Each job is settled once, wherever on its way the clock jumps", arguments: ClockStep.all, Place.allCases)
    func settlesOnce(step: Int64, place: Place) throws {
        let bench = try CoreBench()
        func jump(at here: Place) throws {
            guard here == place else { return }
            bench.setClock(by: step)
            bench.tick()
            try openGate(bench)
        }
        if place == .arrived { bench.handle(.controlConnection(isUp: false)) }
        bench.take(Fixture.job([Fixture.delivery(1)], expiresAt: ClockStep.never))
        if place == .arrived {
            bench.setClock(by: step)
            bench.handle(.controlConnection(isUp: true))
            try openGate(bench)
        }
        try jump(at: .sent)
        bench.finishNext(503, "Shutdown")
        try jump(at: .unconfirmed)
        let retry = try #require(bench.retries().first)
        while !bench.published.isEmpty { bench.confirmNext() }
        #expect(bench.acknowledged.count == 1)
        try jump(at: .retried)
        bench.take(retry, tag: 2)
        bench.finishNext(200)
        #expect(bench.events.map(\.outcome) == [.accepted])
        while !bench.published.isEmpty { bench.confirmNext() }
        #expect(bench.acknowledged.map(\.tag) == [1, 2])
        #expect(bench.core.isDrained)
    }
}
