import PushModel
import Testing

@testable import APNs
@testable import Broker
@testable import Dispatcher

@Suite("An attempt that may have arrived is never forgotten")
struct EarlierAttemptTests {
    private static let installation = PushID(high: 0x1, low: 1)

    /// The delivery as it comes back from a delayed queue after this.
    private func remembered(_ earlier: PushJob.EarlierOutcome, after result: APNsAnswer.Result) throws -> PushJob.EarlierOutcome? {
        let bench = try CoreBench()
        bench.take(Fixture.job([Fixture.delivery(1, earlier: earlier)], attempt: 1))
        bench.finishNext { _ in result }
        return bench.retries().first?.deliveries.first?.earlierOutcome
    }

    @Test("A retry keeps the earlier attempt, whatever came after it")
    func travels() throws {
        func answered(_ status: Int, _ reason: String) -> APNsAnswer.Result {
            .response(status: status, reason: reason, timestamp: nil, retryAfter: nil)
        }
        #expect(try remembered(.none, after: .unknown(.timedOut)) == .unknown)
        #expect(try remembered(.none, after: answered(500, "InternalServerError")) == .failed)
        #expect(try remembered(.none, after: answered(429, "TooManyRequests")) == .failed)
        for waiting in [APNsAnswer.Result.notSent(.refused), .notSent(.poolPaused), .notSent(.unavailable), .notSent(.notConnected)] {
            for earlier in PushJob.EarlierOutcome.allCases { #expect(try remembered(earlier, after: waiting) == earlier) }
        }
        #expect(try remembered(.failed, after: .unknown(.streamReset)) == .unknown)
        #expect(try remembered(.unknown, after: answered(503, "Shutdown")) == .unknown)
        #expect(try remembered(.unknown, after: answered(403, "InvalidProviderToken")) == .unknown)
    }

    @Test("The dispatcher also keeps it through a hold, a full pool, a stop and the other environment")
    func travelsFurther() throws {
        let held = try CoreBench()
        held.obey(.hold(id: PushID(high: 0xb, low: 1), scope: .everything, endsAt: nil, at: held.now))
        held.take(Fixture.job([Fixture.delivery(1, earlier: .unknown)]))
        #expect(held.retries().first?.deliveries.map(\.earlierOutcome) == [.unknown])

        let waiting = try CoreBench(isCaughtUp: false)
        waiting.handle(.controlConnection(isUp: true))
        waiting.take(Fixture.job([Fixture.delivery(1, earlier: .unknown)]))
        waiting.tick(after: 61_000)
        #expect(waiting.retries().first?.deliveries.map(\.earlierOutcome) == [.unknown])

        let stopping = try CoreBench()
        stopping.take(Fixture.job([Fixture.delivery(1, earlier: .unknown), Fixture.delivery(2)]))
        stopping.handle(.stop)
        stopping.finishNext { request in
            request.index == 1 ? .response(status: 200, reason: nil, timestamp: nil, retryAfter: nil) : .notSent(.shuttingDown)
        }
        #expect(stopping.retries().first?.deliveries.map(\.earlierOutcome) == [.unknown])

        let switched = try CoreBench()
        var delivery = Fixture.delivery(1, earlier: .unknown)
        delivery.environmentTrial = .allowed
        switched.take(Fixture.job([delivery]))
        switched.finishNext(400, "BadDeviceToken")
        #expect(switched.retries().first?.deliveries.map(\.earlierOutcome) == [.unknown])
    }

    /// The ways in which a delivery is stopped, and the outcome of one that never left.
    enum Ending: String, CaseIterable {
        case expiredOnArrival, expiredInThePool, expiresBeforeAWait
        case cancelledOnArrival, cancelledInThePool, fencedOnArrival, fencedInThePool

        var outcome: OutcomeClass {
            switch self {
            case .expiredOnArrival, .expiredInThePool, .expiresBeforeAWait: .expired
            case .cancelledOnArrival, .cancelledInThePool: .cancelled
            case .fencedOnArrival, .fencedInThePool: .fenced
            }
        }
    }

    private func play(_ ending: Ending, _ earlier: PushJob.EarlierOutcome) throws -> CoreBench {
        let bench = try CoreBench()
        let delivery = Fixture.delivery(1, installation: Self.installation, earlier: earlier)
        var job = Fixture.job([delivery], attempt: 1)
        switch ending {
        case .expiredOnArrival: job.expiresAt = bench.now
        case .expiresBeforeAWait: job.expiresAt = bench.now + 500
        case .cancelledOnArrival: bench.obey(.cancel(app: Fixture.shop, notification: job.notification, at: bench.now))
        case .fencedOnArrival: bench.obey(.fence(app: Fixture.shop, installation: Self.installation, epochsBelow: 2, at: bench.now))
        case .expiredInThePool, .cancelledInThePool, .fencedInThePool: break
        }
        bench.take(job)
        switch ending {
        case .expiredInThePool: bench.finishNext { _ in .stopped(.expired) }
        case .expiresBeforeAWait: bench.finishNext { _ in .notSent(.notConnected) }
        case .cancelledInThePool: bench.finishNext { _ in .stopped(.cancelled) }
        case .fencedInThePool: bench.finishNext { _ in .stopped(.fenced) }
        case .expiredOnArrival, .cancelledOnArrival, .fencedOnArrival: break
        }
        return bench
    }

    @Test("However it is stopped, it ends as unknown, and one that APNs failed at does not end as expired", arguments: Ending.allCases)
    func decidesTheEnd(ending: Ending) throws {
        for (earlier, outcome) in [
            (.none, ending.outcome), (.failed, ending.outcome == .expired ? .failed : ending.outcome), (.unknown, .unknown),
        ] as [(PushJob.EarlierOutcome, OutcomeClass)] {
            let bench = try play(ending, earlier)
            #expect(bench.events.map(\.outcome) == [outcome], "\(earlier)")
            #expect(bench.events.map(\.isFinal) == [true])
            let attempt = outcome == .failed || outcome == .unknown ? 1 : 2
            #expect(bench.events.first?.deliveries.map(\.attempt) == [attempt], "the last one made")
            let reason = ending == .expiresBeforeAWait ? "not_connected" : outcome == ending.outcome ? nil : ending.outcome.rawValue
            #expect(bench.events.first?.deliveries.map(\.reason) == [reason])
            #expect(bench.retries().isEmpty)
            // A delivery that APNs was asked about can be replayed, and the dead letter keeps its earlier outcome.
            let isDeadLettered = (ending == .expiresBeforeAWait || ending.outcome == .expired) && earlier != .none
            #expect(bench.deadLetters.map { $0.headers["push-reason"] } == (isDeadLettered ? ["expires_before_retry"] : []))
            for letter in bench.deadLetters { #expect(try PushJob(decoding: letter.body).deliveries.map(\.earlierOutcome) == [earlier]) }
        }
    }

    @Test("The last attempt's own answer counts, and where attempts are used up an unanswered one does")
    func usesUpAttempts() throws {
        for (earlier, outcome) in [(.none, .failed), (.failed, .failed), (.unknown, .unknown)]
            as [(PushJob.EarlierOutcome, OutcomeClass)]
        {
            let bench = try CoreBench { $0.retries.maximumAttempts = 2 }
            bench.take(Fixture.job([Fixture.delivery(1, earlier: earlier)], attempt: 1))
            bench.finishNext(500, "InternalServerError")
            #expect(bench.events.map(\.outcome) == [outcome])
            #expect(bench.deadLetters.map { $0.headers["push-reason"] } == ["attempts_used_up"])
        }
        for (status, reason, outcome) in [
            (200, nil, .accepted), (410, "Unregistered", .tokenGone), (413, "PayloadTooLarge", .rejected),
        ] as [(Int, String?, OutcomeClass)] {
            let bench = try CoreBench()
            bench.take(Fixture.job([Fixture.delivery(1, earlier: .unknown)], attempt: 1))
            bench.finishNext(status, reason)
            #expect(bench.events.map(\.outcome) == [outcome])
        }
    }

    @Test("A newer push with its collapse id supersedes it as unknown")
    func superseded() throws {
        let bench = try CoreBench()
        let delivery = Fixture.delivery(1, earlier: .unknown)
        var (older, newer) = (Fixture.job([delivery], notification: 1), Fixture.job([Fixture.delivery(1)], notification: 2))
        (older.collapseID, newer.collapseID) = ("score", "score")
        newer.acceptedAt += 1
        bench.take(newer)
        bench.finishNext(429, "TooManyRequests")
        bench.take(older, tag: 2)
        let event = try #require(bench.events.last)
        #expect(event.outcome == .unknown && event.isFinal)
        #expect(event.deliveries.map(\.reason) == ["superseded"])
        #expect(bench.deadLetters.isEmpty)
    }

    @Test("Unanswered until it is too late to ask again, a notification of forty seconds ends as unknown")
    func endsWithoutAnAnswer() throws {
        let bench = try CoreBench()
        var job = Fixture.job([Fixture.delivery(1)], expiresAt: Fixture.start + 40_000)
        bench.take(job)
        bench.now += 15_000
        bench.finishNext { _ in .unknown(.timedOut) }
        job = try #require(bench.retries().first)
        bench.now += 5_000
        bench.take(job, tag: 2)
        // Its connection was retired, and the pool opens no other before the end.
        bench.now = Fixture.start + 40_000
        bench.finishNext { _ in .stopped(.expired) }
        #expect(bench.events.map(\.outcome) == [.unknown, .unknown])
        #expect(bench.events.map(\.isFinal) == [false, true])
    }
}
