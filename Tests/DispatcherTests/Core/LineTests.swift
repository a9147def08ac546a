import PushModel
import Testing

@testable import APNs
@testable import Broker
@testable import Dispatcher

@Suite("A job's path through the dispatcher")
struct LineTests {
    @Test("Deliveries are grouped into one batch for each pool")
    func groupsByPool() throws {
        let bench = try CoreBench()
        bench.take(Fixture.job([Fixture.delivery(1), Fixture.delivery(2, environment: .sandbox), Fixture.delivery(3)]))
        #expect(bench.submitted.map(\.pool) == [0, 1])
        #expect(bench.submitted.map { $0.batch.requests.map(\.index) } == [[0, 2], [1]])
        #expect(bench.submitted.allSatisfy { $0.batch.topic == "com.example.shop" && $0.batch.priority == 10 })
    }

    @Test("An alert's delivery id is its collapse id too, unless the sender chose one")
    func collapsesByDelivery() throws {
        let bench = try CoreBench()
        var job = Fixture.job([Fixture.delivery(1)])
        func sent(_ job: PushJob) -> APNsBatch? {
            bench.take(job)
            return bench.submitted.last?.batch
        }
        #expect(sent(job)?.collapsesByID == true)
        job.attempt = 4
        #expect(sent(job)?.requests.map(\.id) == [Fixture.delivery(1).id], "every attempt has the same id")
        job.collapseID = "order-7"
        #expect(sent(job)?.collapsesByID == false)
        #expect(sent(job)?.collapseID == "order-7")
        job.collapseID = nil
        for type in PushType.allCases where type != .alert {
            job.pushType = type
            #expect(sent(job)?.collapsesByID == false, "\(type) shows nothing that could be replaced")
        }
    }

    @Test("A job is acknowledged when its outcomes are confirmed, not before, and once")
    func acknowledgesAfterConfirmation() throws {
        let bench = try CoreBench()
        bench.take(Fixture.job([Fixture.delivery(1), Fixture.delivery(2)]))
        bench.finishNext(200)
        #expect(bench.events.map(\.outcome) == [.accepted])
        #expect(bench.events.first?.deliveries.map(\.id) == [Fixture.delivery(1).id, Fixture.delivery(2).id])
        #expect(bench.acknowledged.isEmpty)
        bench.confirmNext()
        #expect(bench.acknowledged == [DeliveryTag(generation: 1, tag: 1)])
        bench.tick(after: 100)
        #expect(bench.acknowledged.count == 1)
        #expect(bench.core.isDrained)
    }

    @Test("Each outcome names the epoch of the owner that the delivery was for, also when nothing was sent")
    func namesTheOwnerEpoch() throws {
        let deliveries = [Fixture.delivery(1, ownerEpoch: 7), Fixture.delivery(2, ownerEpoch: 0)]
        for status in [200, 410, 429] {
            let bench = try CoreBench()
            bench.take(Fixture.job(deliveries))
            bench.finishNext(status)
            #expect(bench.events.first?.deliveries.map(\.ownerEpoch) == [7, 0], "\(status)")
        }
        let bench = try CoreBench()
        bench.take(Fixture.job(deliveries, expiresAt: Fixture.start))
        #expect(bench.events.map(\.outcome) == [.expired])
        #expect(bench.events.first?.deliveries.map(\.ownerEpoch) == [7, 0])
    }

    @Test("A job with an outcome and a retry is acknowledged only when both are confirmed")
    func waitsForEveryMessage() throws {
        let bench = try CoreBench()
        bench.take(Fixture.job([Fixture.delivery(1), Fixture.delivery(2, environment: .sandbox)]))
        bench.finishNext(200)
        bench.finishNext(503, "ServiceUnavailable")
        #expect(bench.published.count == 2)
        bench.confirmNext()
        #expect(bench.acknowledged.isEmpty)
        bench.confirmNext()
        #expect(bench.acknowledged.count == 1)
    }

    @Test("Outcomes of many jobs of one app and class share a message")
    func sharesEvents() throws {
        let bench = try CoreBench()
        for tag in 1...3 { bench.take(Fixture.job([Fixture.delivery(tag)], notification: UInt64(tag)), tag: UInt64(tag)) }
        for (batch, _) in bench.submitted {
            bench.core.handle(
                .batchFinished(
                    APNsFinishedBatch(
                        batch: batch,
                        answers: [
                            APNsAnswer(index: 0, sentAt: nil, result: .response(status: 200, reason: nil, timestamp: nil, retryAfter: nil))
                        ])),
                at: bench.now)
        }
        bench.tick()
        #expect(bench.events.count == 1)
        #expect(bench.events.first?.deliveries.count == 3)
        bench.confirmNext()
        #expect(bench.acknowledged.map(\.tag) == [1, 2, 3])
    }

    @Test("Five hundred outcomes leave without waiting for a quiet moment, and no event is larger")
    func flushesWhenFull() throws {
        let bench = try CoreBench()
        let jobs = (0..<6).map { job in
            Fixture.message(
                Fixture.job((0..<100).map { Fixture.delivery(job * 100 + $0) }, expiresAt: Fixture.start), tag: UInt64(job + 1))
        }
        bench.handle(.jobsReceived(jobs), flush: false)
        #expect(bench.events.map(\.deliveries.count).sorted() == [100, 500])
        bench.confirmNext()
        bench.tick()
        #expect(bench.acknowledged.count == 6)
    }

    @Test("Nothing is sent at or after its expiry")
    func dropsExpired() throws {
        let bench = try CoreBench()
        bench.take(Fixture.job([Fixture.delivery(1)], expiresAt: Fixture.start))
        #expect(bench.submitted.isEmpty)
        #expect(bench.events.map(\.outcome) == [.expired])
        #expect(bench.events.first?.isFinal == true)
    }

    @Test("Only the delivery whose environment has no credential waits")
    func waitsWithoutCredential() throws {
        let bench = try CoreBench()
        bench.take(Fixture.job([Fixture.delivery(1), Fixture.delivery(2, environment: .sandbox)], app: Fixture.other))
        #expect(bench.submitted.map { $0.batch.requests.map(\.index) } == [[0]])
        #expect(bench.events.map(\.outcome) == [.misconfigured])
        #expect(bench.events.first?.isFinal == false)
        #expect(bench.events.first?.deliveries.first?.reason == "no_credential")
        let retry = try #require(bench.retries().first)
        #expect(retry.deliveries.map(\.id) == [Fixture.delivery(2).id])
        #expect(retry.attempt == 0)
        bench.confirmNext()
        #expect(bench.acknowledged.isEmpty, "the other delivery is still at APNs")
        bench.finishNext(200)
        bench.confirmNext()
        #expect(bench.acknowledged.count == 1)
    }

    @Test("An app without any credential waits, and ends with its notification")
    func waitsForUnknownApp() throws {
        let bench = try CoreBench()
        bench.take(Fixture.job([Fixture.delivery(1)], app: Fixture.unconfigured))
        #expect(bench.retries().count == 1)
        bench.take(Fixture.job([Fixture.delivery(2)], app: Fixture.unconfigured, expiresAt: Fixture.start + 900))
        #expect(bench.events.last?.outcome == .expired)
        #expect(bench.deadLetters.isEmpty, "a person could do nothing with it")
    }

    @Test("A retry carries only the deliveries that need it, with one more attempt, in its lane and with its trace")
    func retriesOnlyWhatNeedsIt() throws {
        let bench = try CoreBench()
        let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
        bench.take(
            Fixture.job([Fixture.delivery(1), Fixture.delivery(2), Fixture.delivery(3)], lane: .bulk, attempt: 2),
            headers: ["traceparent": trace, "x-first-death-queue": "push.retry.1s", "push-waits": "4"])
        bench.finishNext { request in
            switch request.index {
            case 0: .response(status: 200, reason: nil, timestamp: nil, retryAfter: nil)
            case 1: .response(status: 429, reason: "TooManyRequests", timestamp: nil, retryAfter: nil)
            default: .response(status: 410, reason: "Unregistered", timestamp: 1_600_000_000_123, retryAfter: nil)
            }
        }
        let retry = try #require(bench.retries().first)
        #expect(bench.retries().count == 1)
        #expect(retry.deliveries == [Fixture.delivery(2, earlier: .failed)])
        #expect(retry.attempt == 3)
        let message = try #require(bench.published.flatMap(\.messages).first { $0.exchange.contains(".retry.") })
        #expect(message.routingKey == "bulk")
        #expect(message.headers == ["traceparent": trace, "push-app": "shop"])
        let byClass = Dictionary(uniqueKeysWithValues: bench.events.map { ($0.outcome, $0) })
        #expect(Set(byClass.keys) == [.accepted, .throttled, .tokenGone])
        #expect(byClass[.throttled]?.isFinal == false)
        let retryAt = try #require(byClass[.throttled]?.deliveries.first?.retryAt)
        #expect(retryAt > bench.now)
        #expect(byClass[.tokenGone]?.deliveries.first?.timestamp == 1_600_000_000_123)
        #expect(byClass[.tokenGone]?.deliveries.first?.attempt == 3)
    }

    @Test("APNs' Retry-After is never shortened")
    func honoursRetryAfter() throws {
        let bench = try CoreBench()
        bench.take(Fixture.job([Fixture.delivery(1)]))
        bench.finishNext(429, "TooManyRequests", retryAfter: .seconds(200))
        #expect(bench.retries(after: .tenMinutes).count == 1)
    }

    @Test("A delivery whose attempts are used up fails for good and is dead-lettered")
    func givesUp() throws {
        let bench = try CoreBench { $0.retries.maximumAttempts = 3 }
        bench.take(Fixture.job([Fixture.delivery(1), Fixture.delivery(2)], attempt: 2))
        bench.finishNext { request in
            .response(
                status: request.index == 0 ? 500 : 200, reason: request.index == 0 ? "InternalServerError" : nil, timestamp: nil,
                retryAfter: nil)
        }
        let failed = try #require(bench.events.first { $0.outcome == .failed })
        #expect(failed.isFinal)
        #expect(failed.deliveries.map(\.reason) == ["InternalServerError"])
        let letter = try #require(bench.deadLetters.first)
        #expect(letter.headers["push-reason"] == "attempts_used_up")
        #expect(try PushJob(decoding: letter.body).deliveries == [Fixture.delivery(1, earlier: .failed)])
        #expect(bench.retries().isEmpty)
        bench.confirmNext()
        #expect(bench.acknowledged.count == 1)
    }

    @Test(
        "A message that is not a job goes to the dead letters with its reason and is acknowledged",
        arguments: [
            // Field 1, the version, is 2.
            ("not a job", "undecodable"), ("\u{08}\u{02}", "unsupported_version"), ("", "undecodable"),
        ])
    func buriesPoison(body: String, reason: String) throws {
        let bench = try CoreBench()
        bench.handle(
            .jobsReceived([
                Fixture.message(Array(body.utf8), tag: 1, headers: ["traceparent": "t"]),
                Fixture.message(Fixture.job([Fixture.delivery(1)]), tag: 2),
            ]))
        let letter = try #require(bench.deadLetters.first)
        #expect(letter.headers["push-reason"] == reason)
        #expect(letter.headers["traceparent"] == "t")
        #expect(letter.body == Array(body.utf8))
        #expect(bench.submitted.count == 1, "the next job does not wait")
        #expect(bench.acknowledged.isEmpty)
        bench.confirmNext()
        #expect(bench.acknowledged.map(\.tag) == [1])
    }

    @Test(
        "A message that the broker refuses is published again, and the job waits for it",
        arguments: [PublishFailure.nacked, .unroutable, .full])
    func publishesAgain(failure: PublishFailure) throws {
        let bench = try CoreBench()
        bench.take(Fixture.job([Fixture.delivery(1)]))
        bench.finishNext(200)
        let first = try #require(bench.published.first?.messages)
        bench.confirmNext(.failed(failure))
        bench.tick()
        #expect(bench.published.isEmpty)
        #expect(bench.acknowledged.isEmpty)
        bench.tick(after: 250)
        #expect(bench.published.first?.messages == first, "the same message under the same id")
        bench.confirmNext()
        #expect(bench.acknowledged.count == 1)
    }

    @Test("The dispatcher publishes a refused message again soon, even if the clock is set back by an hour meanwhile")
    func publishesAgainWhenTheClockIsSetBack() throws {
        let bench = try CoreBench()
        bench.take(Fixture.job([Fixture.delivery(1)]))
        bench.finishNext(200)
        bench.confirmNext(.failed(.nacked))
        bench.setClock(by: -3_600_000)
        bench.tick(after: 250)
        #expect(bench.published.count == 1)
        bench.confirmNext()
        #expect(bench.acknowledged.count == 1)
    }

    @Test("A batch that comes back twice counts once")
    func finishesOnce() throws {
        let bench = try CoreBench()
        bench.take(Fixture.job([Fixture.delivery(1), Fixture.delivery(2, environment: .sandbox)]))
        let batch = try #require(bench.submitted.first?.batch)
        for _ in 0..<2 { bench.finish(batch) { _ in .response(status: 200, reason: nil, timestamp: nil, retryAfter: nil) } }
        #expect(bench.events.flatMap(\.deliveries).count == 1)
    }
}
