import PushModel
import Testing

@testable import APNs
@testable import Broker
@testable import Dispatcher

@Suite("Calls that got no answer")
struct SecondCopyTests {
    private func copies(_ bench: CoreBench) throws -> [PushJob] {
        try bench.messages(to: bench.topology.jobsExchange).map { try PushJob(decoding: $0.body) }
    }

    @Test("A call without an answer is sent once more at once: the copy goes straight to the jobs, and says that there is no third")
    func again() throws {
        let bench = try CoreBench()
        bench.take(Fixture.job([Fixture.delivery(1), Fixture.delivery(2)], onUnknown: .resendOnce), headers: ["traceparent": "t"])
        bench.now += 1_000
        bench.finishNext { request in
            request.index == 0 ? .response(status: 200, reason: nil, timestamp: nil, retryAfter: nil) : .unknown(.connectionLost)
        }
        #expect(bench.events.map(\.outcome) == [.accepted, .unknown])
        #expect(bench.events.map(\.isFinal) == [true, false])
        #expect(bench.retries().isEmpty, "a delayed queue would be late")
        let copy = try #require(try copies(bench).first)
        #expect(copy.deliveries.map(\.id) == [Fixture.delivery(2).id] && copy.attempt == 1 && copy.onUnknown == .drop)
        #expect(copy.deliveries.map(\.earlierOutcome) == [.unknown], "the copy keeps the first attempt")
        #expect(copy.expiresAt == Fixture.start + 5_000, "no connection and no hold makes it late")
        let message = try #require(bench.messages(to: bench.topology.jobsExchange).first)
        #expect(message.routingKey == "now" && message.headers["traceparent"] == "t")
        #expect(bench.acknowledged.isEmpty)
        bench.confirmNext()
        #expect(bench.acknowledged.count == 1, "only once the broker has the copy")

        bench.take(copy, tag: 2)
        bench.finishNext { _ in .unknown(.timedOut) }
        #expect(bench.events.map(\.outcome) == [.unknown] && bench.events.map(\.isFinal) == [true])
        #expect(try copies(bench).isEmpty && bench.retries().isEmpty && bench.deadLetters.isEmpty)
    }

    @Test("A copy that comes too late to be sent ends as unknown: the first attempt may have arrived")
    func copyExpires() throws {
        let bench = try CoreBench()
        bench.take(Fixture.job([Fixture.delivery(1)], onUnknown: .resendOnce))
        bench.finishNext { _ in .unknown(.connectionLost) }
        let copy = try #require(try copies(bench).first)
        bench.confirmNext()
        bench.now = copy.expiresAt
        bench.take(copy, tag: 2)
        #expect(bench.events.map(\.outcome) == [.unknown] && bench.events.map(\.isFinal) == [true])
    }

    @Test("A call that was accepted too long ago is not sent again", arguments: [(4_999, 1), (5_000, 0), (60_000, 0)])
    func late(age: Int64, count: Int) throws {
        let bench = try CoreBench()
        bench.take(Fixture.job([Fixture.delivery(1)], onUnknown: .resendOnce))
        bench.now += age
        bench.finishNext { _ in .unknown(.connectionLost) }
        #expect(try copies(bench).count == count)
        #expect(bench.events.map(\.outcome) == [.unknown] && bench.events.map(\.isFinal) == [count == 0])
        #expect(bench.retries().isEmpty)
    }

    @Test("A call that has expired or used up its attempts is not sent again")
    func ended() throws {
        let expiring = try CoreBench()
        expiring.take(Fixture.job([Fixture.delivery(1)], expiresAt: Fixture.start + 1_000, onUnknown: .resendOnce))
        expiring.now += 1_000
        expiring.finishNext { _ in .unknown(.connectionLost) }
        #expect(expiring.events.map(\.isFinal) == [true])
        #expect(try copies(expiring).isEmpty)

        let tired = try CoreBench { $0.retries.maximumAttempts = 1 }
        tired.take(Fixture.job([Fixture.delivery(1)], onUnknown: .resendOnce))
        tired.finishNext { _ in .unknown(.connectionLost) }
        #expect(tired.events.map(\.isFinal) == [true])
        #expect(try copies(tired).isEmpty)
    }

    @Test("A call that certainly did not leave makes no second copy and is retried as usual")
    func notSent() throws {
        let bench = try CoreBench()
        bench.take(Fixture.job([Fixture.delivery(1)], onUnknown: .resendOnce))
        bench.finishNext { _ in .notSent(.notConnected) }
        #expect(bench.retries().map(\.onUnknown) == [.resendOnce])
    }
}
