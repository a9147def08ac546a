import PushModel
import Testing

@testable import APNs
@testable import Broker
@testable import Dispatcher

@Suite("A delayed queue that is full")
struct FullQueueTests {
    /// The exchange and the body of the only message that is being published.
    private static func retry(_ bench: CoreBench) -> (delay: RetryDelay?, body: [UInt8]) {
        for delay in RetryDelay.allCases {
            if let message = bench.messages(to: bench.topology.retryExchange(delay)).first { return (delay, message.body) }
        }
        return (nil, [])
    }

    @Test("A refused message goes to the next shorter queue; nothing is lost or waits longer, and the job is acknowledged")
    func takesTheNext() throws {
        let bench = try CoreBench()
        bench.obey(.hold(id: PushID(high: 0xb, low: 1), scope: .everything, endsAt: nil, at: Fixture.start))
        // The first fifty wait five seconds, the next thirty.
        for tag in 1...50 { bench.take(Fixture.job([Fixture.delivery(Int(tag))]), tag: UInt64(tag)) }
        while !bench.published.isEmpty { bench.confirmNext() }
        bench.take(Fixture.job([Fixture.delivery(51)]), tag: 51)
        let first = Self.retry(bench)
        #expect(first.delay == .thirtySeconds)
        for expected in [RetryDelay.fiveSeconds, .oneSecond, .thirtySeconds, .fiveSeconds] {
            bench.confirmNext(.failed(.nacked))
            #expect(bench.acknowledged.count == 50)
            bench.tick(after: 250)
            let next = Self.retry(bench)
            #expect(next.delay == expected && next.body == first.body)
        }
        while !bench.published.isEmpty { bench.confirmNext() }
        #expect(bench.acknowledged.map(\.tag).last == 51)
    }

    @Test("A message that was refused for another reason keeps its queue", arguments: [PublishFailure.unroutable, .full])
    func staysOtherwise(failure: PublishFailure) throws {
        let bench = try CoreBench()
        bench.take(Fixture.job([Fixture.delivery(1)]))
        bench.finishNext(429, "TooManyRequests")
        let first = Self.retry(bench)
        bench.confirmNext(.failed(failure))
        bench.tick(after: 250)
        #expect(Self.retry(bench).delay == first.delay)
    }
}
