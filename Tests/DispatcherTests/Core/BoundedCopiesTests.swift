import PushModel
import Testing

@testable import APNs
@testable import Broker
@testable import Dispatcher

@Suite("Deliveries of which APNs must not get many copies, when the broker delivers their job anew")
struct BoundedCopiesTests {
    private static func ok() -> APNsAnswer.Result { .response(status: 200, reason: nil, timestamp: nil, retryAfter: nil) }

    /// The job is in a pool when its connection is lost, and comes again.
    private static func redelivered(_ policy: PushJob.OnUnknown) throws -> (bench: CoreBench, stale: APNsBatch, job: PushJob) {
        let bench = try CoreBench()
        let job = Fixture.job([Fixture.delivery(1)], onUnknown: policy)
        bench.take(job)
        let stale = try #require(bench.submitted.first?.batch)
        bench.loseJobs()
        bench.handle(.jobsReceived([Fixture.message(job, generation: 2)]))
        return (bench, stale, job)
    }

    @Test("The new copy waits while the first request is under way", arguments: [PushJob.OnUnknown.drop, .resendOnce])
    func waits(policy: PushJob.OnUnknown) throws {
        let (bench, stale, _) = try Self.redelivered(policy)
        #expect(bench.submitted.count == 1, "nothing more is sent")
        let copy = try #require(bench.retries(after: .oneSecond).first)
        while !bench.published.isEmpty { bench.confirmNext() }
        // The answer comes, and the copy comes back from the delayed queue.
        bench.finish(stale) { _ in Self.ok() }
        bench.take(copy, tag: 2, headers: ["push-waits": "1"])
        #expect(bench.submitted.count == 1)
        #expect(bench.events.map(\.outcome) == [.accepted, .accepted] || bench.events.flatMap(\.deliveries).count == 2)
        while !bench.published.isEmpty { bench.confirmNext() }
        #expect(bench.core.isDrained)
    }

    @Test("A start without an answer is not sent again")
    func dropped() throws {
        let (bench, stale, _) = try Self.redelivered(.drop)
        let copy = try #require(bench.retries().first)
        bench.finish(stale) { _ in .unknown(.connectionLost) }
        bench.take(copy, tag: 2, headers: ["push-waits": "1"])
        #expect(bench.submitted.count == 1)
        #expect(bench.events.flatMap(\.deliveries).count == 2 && bench.events.allSatisfy { $0.outcome == .unknown && $0.isFinal })
    }

    @Test("A call without an answer is sent once more, by the new copy")
    func onceMore() throws {
        let (bench, stale, _) = try Self.redelivered(.resendOnce)
        let copy = try #require(bench.retries().first)
        bench.finish(stale) { _ in .unknown(.connectionLost) }
        #expect(bench.messages(to: bench.topology.jobsExchange).isEmpty)
        bench.take(copy, tag: 2, headers: ["push-waits": "1"])
        let second = try #require(try bench.messages(to: bench.topology.jobsExchange).map { try PushJob(decoding: $0.body) }.first)
        #expect(second.onUnknown == .drop && second.attempt == 1 && bench.submitted.count == 1)
        bench.take(second, tag: 3)
        #expect(bench.submitted.count == 2, "the second copy, and no third")
    }

    @Test("A call whose second copy is on its way is not sent a third time")
    func noThird() throws {
        let bench = try CoreBench()
        let job = Fixture.job([Fixture.delivery(1)], onUnknown: .resendOnce)
        bench.take(job)
        bench.finishNext { _ in .unknown(.connectionLost) }
        let message = try #require(bench.messages(to: bench.topology.jobsExchange).first)
        bench.loseJobs()
        #expect(message.withdrawal == nil, "it is published all the same")
        bench.handle(.jobsReceived([Fixture.message(job, generation: 2)]))
        #expect(bench.submitted.isEmpty && bench.messages(to: bench.topology.jobsExchange).count == 1)
        bench.take(try PushJob(decoding: message.body), tag: 3)
        #expect(bench.submitted.count == 1)
    }

    @Test("A request that certainly did not leave is sent by the new copy", arguments: [PushJob.OnUnknown.drop, .resendOnce])
    func notLeft(policy: PushJob.OnUnknown) throws {
        let (bench, stale, _) = try Self.redelivered(policy)
        let copy = try #require(bench.retries().first)
        bench.finish(stale) { _ in .stopped(.held) }
        bench.take(copy, tag: 2, headers: ["push-waits": "1"])
        #expect(bench.submitted.count == 2)
    }

    @Test("A job that the broker delivers anew is not acknowledged before the second copy is stored")
    func copyIsStored() throws {
        let bench = try CoreBench()
        let job = Fixture.job([Fixture.delivery(1)], onUnknown: .resendOnce)
        bench.take(job)
        bench.finishNext { _ in .unknown(.connectionLost) }
        bench.loseJobs()
        bench.handle(.jobsReceived([Fixture.message(job, generation: 2)]))
        #expect(bench.acknowledged.isEmpty)
        while !bench.published.isEmpty { bench.confirmNext() }
        #expect(bench.acknowledged.count == 1)
    }

    @Test("A job that comes again although it was acknowledged is not sent again", arguments: [PushJob.OnUnknown.drop, .resendOnce])
    func acknowledgementWasLost(policy: PushJob.OnUnknown) throws {
        let bench = try CoreBench()
        let job = Fixture.job([Fixture.delivery(1)], onUnknown: policy)
        bench.take(job)
        bench.finishNext { _ in Self.ok() }
        while !bench.published.isEmpty { bench.confirmNext() }
        #expect(bench.acknowledged.count == 1)
        bench.tick(after: 60_000)
        bench.loseJobs()
        bench.handle(.jobsReceived([Fixture.message(job, generation: 2)]))
        #expect(bench.submitted.isEmpty)
    }

    @Test("A start that APNs answered with 503, whose job comes again, is sent once, by its retry")
    func retried() throws {
        let bench = try CoreBench()
        let job = Fixture.job([Fixture.delivery(1)], onUnknown: .drop)
        bench.take(job)
        bench.finishNext { _ in .response(status: 503, reason: nil, timestamp: nil, retryAfter: nil) }
        let retry = try #require(bench.retries().first)
        bench.loseJobs()
        bench.handle(.jobsReceived([Fixture.message(job, generation: 2)]))
        #expect(bench.submitted.isEmpty)
        bench.take(retry, tag: 2)
        #expect(bench.submitted.count == 1)
    }

    @Test("Two copies of one message never give way to each other: one of them leaves")
    func twice() throws {
        let bench = try CoreBench()
        let job = Fixture.job([Fixture.delivery(1)], onUnknown: .drop)
        bench.take(job)
        let first = try #require(bench.submitted.first?.batch)
        bench.take(job, tag: 2)
        #expect(bench.submitted.count == 1)
        let passed = try #require(bench.retries().first)
        bench.finish(first) { _ in .notSent(.notConnected) }
        let retried = try #require(bench.retries().last)
        while !bench.published.isEmpty { bench.confirmNext() }
        bench.take(passed, tag: 3, headers: ["push-waits": "1"])
        bench.take(retried, tag: 4, headers: ["push-waits": "1"])
        #expect(bench.submitted.count == 2, "the first attempt, which did not leave, and one more")
    }

    @Test("A start that was about to be replayed is a new one")
    func replayed() throws {
        let (bench, stale, job) = try Self.redelivered(.drop)
        bench.finish(stale) { _ in .response(status: 400, reason: "PayloadEmpty", timestamp: nil, retryAfter: nil) }
        bench.take(job, tag: 3, headers: [PushJob.earlierAttemptsHeader: "1"])
        #expect(bench.submitted.count == 2)
    }

    @Test("What became of a delivery is forgotten two minutes after its job is settled, and after an hour if its connection was lost")
    func forgets() throws {
        let (bench, stale, _) = try Self.redelivered(.drop)
        bench.finish(stale) { _ in Self.ok() }
        while !bench.published.isEmpty { bench.confirmNext() }
        bench.tick(after: 3_500_000)
        #expect(bench.core.careful.count == 1, "the broker may deliver the job anew later")
        bench.tick(after: 100_000)
        #expect(bench.core.careful.isEmpty)
        bench.take(Fixture.job([Fixture.delivery(2)], onUnknown: .drop), tag: 9)
        bench.finish(try #require(bench.submitted.last?.batch)) { _ in Self.ok() }
        while !bench.published.isEmpty { bench.confirmNext() }
        bench.tick(after: 119_000)
        #expect(bench.core.careful.count == 1)
        bench.tick(after: 10_000)
        #expect(bench.core.careful.isEmpty)
    }

    /// Every lost connection renews the two minutes of what was just settled, and keeps nothing settled for the hour.
    @Test("A lost connection does not keep the settled deliveries of all lanes for an hour") func settledAreForgotten() {
        var careful = CarefulDeliveries()
        let version = CarefulDeliveries.Version(life: 0, attempts: 0, waits: 0)
        for number in 1...3 as ClosedRange<UInt64> {
            careful.note(.ended(.accepted, reason: nil), of: PushID(high: 0, low: number), version, job: number, at: 0)
        }
        careful.keep(at: 60_000) { $0 == 3 }
        careful.forget(at: 179_000) { _ in false }
        #expect(careful.count == 3)
        careful.forget(at: 189_000) { _ in false }
        #expect(careful.count == 1, "the broker delivers job 3 anew")
    }

    @Test("A job that comes again when it expires learns how its request ends") func answerAfterExpiry() throws {
        let bench = try CoreBench()
        let job = Fixture.job([Fixture.delivery(1)], onUnknown: .drop)
        bench.take(job)
        let stale = try #require(bench.submitted.first?.batch)
        bench.loseJobs()
        bench.now = job.expiresAt - 500
        bench.handle(.jobsReceived([Fixture.message(job, generation: 2)]))
        let copy = try #require(bench.retries(after: .oneSecond).first)
        #expect(bench.events.isEmpty)
        // The request is still under way when the copy comes back.
        bench.now = job.expiresAt + 500
        bench.take(copy, tag: 2, headers: ["push-waits": "1"])
        #expect(bench.events.isEmpty)
        bench.finish(stale) { _ in Self.ok() }
        let next = try #require(bench.retries(after: .oneSecond).last)
        bench.take(next, tag: 3, headers: ["push-waits": "2"])
        #expect(bench.events.allSatisfy { $0.outcome == .accepted } && !bench.events.isEmpty)
    }

    @Test("Ordinary notifications cost no entry")
    func ordinary() throws {
        let bench = try CoreBench()
        bench.take(Fixture.job([Fixture.delivery(1)]))
        #expect(bench.core.careful.isEmpty)
    }
}
