import PushModel
import Testing

@testable import APNs
@testable import Broker
@testable import Dispatcher

@Suite("Queues that are full, or do not answer")
struct FullQueueTests {
    @Test("A retry names the shorter delays as its other queues, so that it is never late; a second copy waits for a second")
    func namesOthers() throws {
        let bench = try CoreBench()
        bench.take(Fixture.job([Fixture.delivery(1)], attempt: 3))
        bench.finishNext(503, "ServiceUnavailable")
        let retry = try #require(bench.published.flatMap(\.messages).first { $0.exchange.hasPrefix("push.retry.") })
        #expect(retry.exchange == "push.retry.lanes.15m")
        #expect(retry.fallbackExchanges == ["10m", "2m", "30s", "5s", "1s"].map { "push.retry.lanes.\($0)" })
        bench.take(Fixture.job([Fixture.delivery(2)], onUnknown: .resendOnce), tag: 2)
        bench.finishNext { _ in .unknown(.connectionLost) }
        #expect(bench.messages(to: bench.topology.jobsExchange).map(\.fallbackExchanges) == [["push.retry.lanes.1s"]])
    }

    @Test("A message that no queue took is published again", arguments: [PublishFailure.nacked, .unroutable, .full, .stalled])
    func againLater(failure: PublishFailure) throws {
        let bench = try CoreBench()
        bench.take(Fixture.job([Fixture.delivery(1)]))
        bench.finishNext(429, "TooManyRequests")
        let first = try #require(bench.published.flatMap(\.messages).first { $0.exchange.hasPrefix("push.retry.") })
        bench.settleNext { $0 == first ? .failed(failure) : .confirmed }
        bench.tick(after: 250)
        #expect(bench.published.flatMap(\.messages) == [first])
        #expect(bench.acknowledged.isEmpty)
        bench.confirmNext(.confirmedElsewhere)
        #expect(bench.acknowledged.count == 1 && bench.gate.isOpen)
    }

    @Test("When no queue takes dead letters, every lane goes on, and no accepted delivery comes again")
    func deadLettersFull() throws {
        let bench = try CoreBench { rules in
            rules.deliveries[.bulk] = 800
            rules.retries.maximumAttempts = 1
        }
        func settle() {
            while !bench.published.isEmpty {
                bench.settleNext { message in
                    [bench.topology.deadExchange].contains(message.exchange) ? .failed(.nacked) : .confirmed
                }
            }
        }
        for tag in 1...8 as ClosedRange<UInt64> {
            let deliveries = (0..<100).map { Fixture.delivery(Int(tag) * 100 + $0) }
            bench.take(Fixture.job(deliveries, notification: tag, lane: .bulk), tag: tag)
            bench.finishNext { request in
                .response(status: request.index == 0 ? 500 : 200, reason: nil, timestamp: nil, retryAfter: nil)
            }
            #expect(bench.deadLetters.map(\.fallbackExchanges) == [[bench.topology.waitingDeadExchange]])
            settle()
        }
        bench.take(Fixture.job([Fixture.delivery(1)], app: Fixture.other, lane: .bulk), tag: 9)
        #expect(bench.submitted.count == 1, "another app's job is sent")
        for _ in 0..<4 {
            bench.tick(after: 250)
            settle()
        }
        #expect(bench.acknowledged.map(\.tag).sorted() == Array(1...8))
        #expect(bench.core.takeTally().lettersLost == 8)
        let notes = bench.others.filter { if case .note(.givenUp(1, "deadLetter nacked")) = $0 { true } else { false } }
        #expect(notes.count == 8)
        #expect(!bench.others.contains { if case .note(.publishFailed) = $0 { true } else { false } }, "they are not published again")
    }

    @Test("A message that is no job stays in the broker when no queue takes dead letters")
    func poisonStays() throws {
        let bench = try CoreBench()
        bench.handle(.jobsReceived([Fixture.message(Array("poison".utf8))]))
        bench.confirmNext(.failed(.nacked))
        #expect(bench.discarded.count == 1 && bench.acknowledged.isEmpty)
        #expect(bench.core.isDrained)
    }

    @Test("A publication's messages are answered one by one: a job waits only for what it owes itself")
    func oneByOne() throws {
        let bench = try CoreBench()
        bench.take(Fixture.job([Fixture.delivery(1)]), tag: 1)
        bench.take(Fixture.job([Fixture.delivery(2)]), tag: 2)
        let batches = bench.submitted.map(\.batch)
        let answers: [APNsFinishedBatch] = zip(batches, [200, 429]).map { batch, status in
            APNsFinishedBatch(
                batch: batch,
                answers: batch.requests.map {
                    APNsAnswer(
                        index: $0.index, sentAt: bench.now,
                        result: .response(status: status, reason: status == 429 ? "TooManyRequests" : nil, timestamp: nil, retryAfter: nil))
                })
        }
        for answer in answers { bench.handle(.batchFinished(answer), flush: false) }
        bench.handle(.jobsReceived([]))
        #expect(bench.published.count == 1, "one publication has them all")
        bench.settleSome { $0.exchange.hasPrefix("push.retry.") ? nil : .confirmed }
        #expect(bench.acknowledged.map(\.tag) == [1])
    }

    @Test("A job whose retry gets no answer takes no other job's place after two seconds")
    func lateRetry() throws {
        let bench = try CoreBench { $0.deliveries[.bulk] = 4 }
        for tag in 1...2 as ClosedRange<UInt64> {
            bench.take(Fixture.job([Fixture.delivery(Int(tag))], notification: tag, lane: .bulk), tag: tag)
            bench.finishNext(429, "TooManyRequests")
            bench.settleSome { $0.exchange.hasPrefix("push.retry.") ? nil : .confirmed }
        }
        #expect(bench.core.book.ledger.work[.bulk].deliveries == 2)
        bench.tick(after: 1_999)
        #expect(bench.core.book.ledger.work[.bulk].deliveries == 2)
        bench.tick(after: 1)
        #expect(bench.core.book.ledger.work[.bulk].deliveries == 0)
        #expect(bench.acknowledged.isEmpty, "they are not settled")
    }
}
