import PushModel
import RabbitMQ
import Testing

@testable import APNs
@testable import Broker
@testable import Dispatcher

@Suite("Messages of another writer are refused or sent, and always settled")
struct ForeignMessageTests {
    @Test(
        "A moment that is none makes a dead letter, and ends no process",
        arguments: [Int64.min, -1, 253_402_300_800_000, Int64.max - 1, .max], [true, false])
    func moments(moment: Int64, isExpiry: Bool) throws {
        let bench = try CoreBench()
        var job = Fixture.job([Fixture.delivery(1)], onUnknown: .resendOnce)
        if isExpiry { job.expiresAt = moment } else { job.acceptedAt = moment }
        bench.handle(.jobsReceived([Fixture.message(job.encoded(), headers: [PushJob.appHeader: "shop", "traceparent": "t"])]))
        #expect(bench.deadLetters.map { $0.headers["push-reason"] } == ["undecodable"])
        bench.confirmNext()
        #expect(bench.acknowledged.count == 1)
    }

    @Test("The edges of what counts as a moment are worked on", arguments: [0, Fixture.start, 253_402_300_799_999], [200, 429, 503])
    func edges(moment: Int64, status: Int) throws {
        let bench = try CoreBench()
        var job = Fixture.job([Fixture.delivery(1)], expiresAt: 253_402_300_799_999, onUnknown: .resendOnce)
        job.acceptedAt = moment
        bench.take(job)
        if status == 503 { bench.finishNext { _ in .unknown(.timedOut) } } else { bench.finishNext(status) }
        while !bench.published.isEmpty { bench.confirmNext() }
        #expect(bench.acknowledged.count == 1)
    }

    @Test("Numbers in headers are bounded", arguments: ["push-waits", PushJob.earlierAttemptsHeader])
    func numbers(header: String) throws {
        for number in ["9223372036854775807", "-9223372036854775808", "x", ""] {
            let bench = try CoreBench()
            bench.take(Fixture.job([Fixture.delivery(1)]), headers: [header: number])
            bench.finishNext { _ in .notSent(.notConnected) }
            #expect(bench.retries().count == 1)
        }
    }

    @Test("Headers that cannot be published are left out of a retry and of a dead letter")
    func headers() throws {
        var headers = ["traceparent": "t", String(repeating: "n", count: 129): "v", "large": String(repeating: "v", count: 60_000)]
        for extra in [0, 14, 300] {
            for number in 0..<extra { headers["extra-\(number)"] = String(repeating: "v", count: 4_096) }
            let bench = try CoreBench { $0.retries.maximumAttempts = 2 }
            bench.take(Fixture.job([Fixture.delivery(1)]), headers: headers)
            bench.finishNext(503, "ServiceUnavailable")
            bench.take(Fixture.job([Fixture.delivery(1)], attempt: 1), tag: 2, headers: headers)
            bench.finishNext(503, "ServiceUnavailable")
            bench.handle(.jobsReceived([Fixture.message([1, 2, 3], tag: 3, headers: headers)]))
            let messages = bench.published.flatMap(\.messages).filter { !$0.exchange.hasPrefix("push.outcomes") }
            #expect(messages.count == 3)
            for message in messages { #expect(message.wireMessage.isEncodable && message.headers["traceparent"] == "t") }
        }
    }

    @Test("A message that cannot be encoded all the same is settled")
    func invalid() throws {
        let bench = try CoreBench()
        bench.handle(.jobsReceived([Fixture.message([1, 2, 3])]))
        bench.confirmNext(.failed(.invalid))
        #expect(bench.acknowledged.count == 1 && bench.core.isDrained)
    }
}
