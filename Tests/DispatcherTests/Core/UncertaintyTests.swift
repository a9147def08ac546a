import PushModel
import Testing

@testable import APNs
@testable import Broker
@testable import Dispatcher

@Suite("Deliveries that did not leave, or got no answer")
struct UncertaintyTests {
    @Test(
        "Deliveries that a pool could not send wait without using an attempt, and do not go to the pool again at once",
        arguments: [NotSentReason.refused, .deadline, .notConnected, .congested, .queueFull])
    func waits(reason: NotSentReason) throws {
        let bench = try CoreBench()
        bench.take(Fixture.job([Fixture.delivery(1), Fixture.delivery(2)], attempt: 4))
        bench.finishNext { $0.index == 0 ? .response(status: 200, reason: nil, timestamp: nil, retryAfter: nil) : .notSent(reason) }
        #expect(bench.submitted.isEmpty)
        #expect(bench.retries(after: .oneSecond).map(\.attempt) == [4])
        #expect(bench.retries().first?.deliveries == [Fixture.delivery(2)])
        #expect(bench.messages(to: bench.topology.retryExchange(.oneSecond)).first?.headers["push-waits"] == "1")
        #expect(bench.events.map(\.outcome) == [.accepted], "nothing left, so there is nothing to report")
    }

    @Test(
        "Without a connection a job waits longer each time, and short trouble begins with short waits",
        arguments: [
            (0, [RetryDelay.oneSecond]), (4, [.oneSecond]), (5, [.oneSecond, .fiveSeconds]), (12, [.oneSecond, .fiveSeconds]),
            (13, [.fiveSeconds, .thirtySeconds]), (50, [.fiveSeconds, .thirtySeconds]),
        ] as [(Int, [RetryDelay])])
    func waitsLonger(waits: Int, delays: [RetryDelay]) throws {
        let bench = try CoreBench()
        bench.take(Fixture.job([Fixture.delivery(1)]), headers: ["push-waits": "\(waits)"])
        bench.finishNext { _ in .notSent(.notConnected) }
        let delay = try #require(RetryDelay.allCases.first { !bench.retries(after: $0).isEmpty })
        #expect(delays.contains(delay))
    }

    @Test("A paused pool's jobs wait as misconfigured, and use up no attempt")
    func waitsForPausedPool() throws {
        let bench = try CoreBench()
        bench.take(Fixture.job([Fixture.delivery(1)]))
        bench.finishNext { _ in .notSent(.poolPaused) }
        #expect(bench.events.map(\.outcome) == [.misconfigured])
        #expect(bench.events.first?.isFinal == false)
        #expect(bench.retries().map(\.attempt) == [0])
    }

    @Test("A wrong topic never touches the token; the delivery waits until an operator corrects the credential")
    func waitsForTopic() throws {
        let bench = try CoreBench()
        bench.take(Fixture.job([Fixture.delivery(1)], attempt: 9))
        bench.finishNext(400, "TopicDisallowed")
        #expect(bench.events.map(\.outcome) == [.misconfigured])
        #expect(bench.retries().map(\.attempt) == [9])
    }

    @Test("A replayed job's attempts are numbered on from its earlier life, and its retries know that too; its own count begins anew")
    func countsOn() throws {
        let bench = try CoreBench()
        bench.take(Fixture.job([Fixture.delivery(1)]), headers: [PushJob.earlierAttemptsHeader: "10"])
        bench.finishNext(503, "Shutdown")
        #expect(bench.events.flatMap(\.deliveries).map(\.attempt) == [11])
        #expect(bench.retries().map(\.attempt) == [1])
        let retry = try #require(bench.published.flatMap(\.messages).first { $0.exchange.hasPrefix("push.retry.") })
        #expect(retry.headers[PushJob.earlierAttemptsHeader] == "10")
        for nonsense in ["", "ten", "-5"] {
            let other = try CoreBench()
            other.take(Fixture.job([Fixture.delivery(1)]), headers: [PushJob.earlierAttemptsHeader: nonsense])
            other.finishNext(200)
            #expect(other.events.flatMap(\.deliveries).map(\.attempt) == [1])
        }
    }

    @Test("Without an answer the delivery is sent again under the same id, unless the notification says at most once")
    func followsPolicy() throws {
        let bench = try CoreBench()
        bench.take(Fixture.job([Fixture.delivery(1)], onUnknown: .resend))
        bench.finishNext { _ in .unknown(.connectionLost) }
        #expect(bench.events.map(\.isFinal) == [false])
        #expect(bench.retries().first?.deliveries == [Fixture.delivery(1, earlier: .unknown)])
        #expect(bench.retries().first?.attempt == 1)

        let careful = try CoreBench()
        careful.take(Fixture.job([Fixture.delivery(1)], onUnknown: .drop))
        careful.finishNext { _ in .unknown(.timedOut) }
        #expect(careful.events.map(\.outcome) == [.unknown])
        #expect(careful.events.map(\.isFinal) == [true])
        #expect(careful.events.first?.deliveries.first?.reason == "timed_out")
        #expect(careful.retries().isEmpty)
        #expect(careful.deadLetters.isEmpty)
    }

    @Test("A retry that could not come back before the expiry is not made")
    func endsAtExpiry() throws {
        let bench = try CoreBench()
        bench.take(Fixture.job([Fixture.delivery(1)], expiresAt: Fixture.start + 5000))
        bench.finishNext(429, "TooManyRequests", retryAfter: .seconds(30))
        #expect(bench.events.map(\.outcome) == [.failed])
        #expect(bench.events.first?.isFinal == true)
        #expect(bench.deadLetters.first?.headers["push-reason"] == "expires_before_retry")
        #expect(bench.retries().isEmpty)
    }

    @Test("When the broker connection is lost, results are still reported, but nothing of those jobs is retried, sent or acknowledged")
    func forgetsReceipts() throws {
        let bench = try CoreBench()
        bench.take(Fixture.job([Fixture.delivery(1), Fixture.delivery(2), Fixture.delivery(3)]))
        let batch = try #require(bench.submitted.first?.batch)
        bench.loseJobs()
        #expect(bench.gate.stopReason(for: batch.requests[2], of: batch) == .held, "the broker delivers it anew")
        bench.finishNext { request in
            switch request.index {
            case 0: .response(status: 200, reason: nil, timestamp: nil, retryAfter: nil)
            case 1: .response(status: 503, reason: nil, timestamp: nil, retryAfter: nil)
            default: .stopped(.held)
            }
        }
        #expect(bench.events.map(\.outcome) == [.accepted])
        #expect(bench.retries().isEmpty)
        bench.confirmNext()
        #expect(bench.acknowledged.isEmpty)
        #expect(bench.core.isDrained)
        #expect(bench.submitted.isEmpty)
    }

    @Test("A job that the broker delivers anew is processed again")
    func takesRedelivered() throws {
        let bench = try CoreBench()
        let job = Fixture.job([Fixture.delivery(1)])
        bench.take(job)
        let stale = try #require(bench.submitted.first?.batch)
        bench.loseJobs()
        bench.handle(.jobsReceived([Fixture.message(job, tag: 1, generation: 2)]))
        let fresh = try #require(bench.submitted.last?.batch)
        #expect(bench.gate.stopReason(for: fresh.requests[0], of: fresh) == nil)
        bench.finish(stale) { _ in .stopped(.held) }
        bench.finish(fresh) { _ in .response(status: 200, reason: nil, timestamp: nil, retryAfter: nil) }
        bench.confirmNext()
        #expect(bench.acknowledged == [DeliveryTag(generation: 2, tag: 1)])
    }
}
