import PushModel
import Testing

@testable import APNs
@testable import Broker
@testable import Dispatcher

@Suite("The dispatcher tries a rejected token once in the other environment if its own is not proven")
struct EnvironmentTests {
    private static func job(
        _ trial: PushJob.EnvironmentTrial = .allowed, app: AppSlug = Fixture.shop, attempt: Int = 0,
        expiresAt: Int64 = Fixture.start + 3_600_000
    ) -> PushJob {
        var delivery = Fixture.delivery(1)
        delivery.environmentTrial = trial
        return Fixture.job([delivery, Fixture.delivery(2)], app: app, expiresAt: expiresAt, attempt: attempt)
    }

    @Test("The dispatcher reports the rejection as an attempt, and the delivery waits for the other environment under its id")
    func triesTheOther() throws {
        let bench = try CoreBench()
        bench.take(Self.job())
        bench.finishNext { $0.index == 0 ? Self.rejected() : Self.accepted }
        let attempt = try #require(bench.events.first { $0.outcome == .tokenRejected })
        #expect(!attempt.isFinal)
        #expect(attempt.deliveries.map(\.id) == [Fixture.delivery(1).id])
        #expect(attempt.deliveries.first?.reason == "BadDeviceToken" && attempt.deliveries.first?.environment == nil)
        let retry = try #require(bench.retries().first)
        #expect(retry.attempt == 1)
        #expect(retry.deliveries.map(\.id) == [Fixture.delivery(1).id])
        #expect(retry.deliveries.first?.environment == .sandbox && retry.deliveries.first?.environmentTrial == .made)
        #expect(attempt.deliveries.first?.retryAt ?? 0 > bench.now)
        #expect(bench.acknowledged.isEmpty)
        bench.confirmNext()
        #expect(bench.acknowledged.count == 1)
    }

    @Test("The answer of the other environment is final, and the outcome names the environment", arguments: [200, 400, 410])
    func reportsTheOther(status: Int) throws {
        let bench = try CoreBench()
        var delivery = Fixture.delivery(1, environment: .sandbox)
        delivery.environmentTrial = .made
        bench.take(Fixture.job([delivery], attempt: 1))
        #expect(bench.submitted.map(\.pool) == [1])
        bench.finishNext(status, [400: "BadDeviceToken", 410: "Unregistered"][status])
        let event = try #require(bench.events.first)
        #expect(event.isFinal)
        #expect(event.outcome == [200: .accepted, 400: .tokenRejected, 410: .tokenGone][status])
        #expect(event.deliveries.first?.environment == .sandbox)
        #expect(event.deliveries.first?.attempt == 2)
        #expect(bench.retries().isEmpty)
    }

    @Test("Throttling in the other environment continues the same try")
    func staysTheTrial() throws {
        let bench = try CoreBench()
        var delivery = Fixture.delivery(1, environment: .sandbox)
        delivery.environmentTrial = .made
        bench.take(Fixture.job([delivery], attempt: 1))
        bench.finishNext(429, "TooManyRequests")
        delivery.earlierOutcome = .failed
        #expect(bench.retries().first?.deliveries == [delivery])
    }

    @Test("The dispatcher does not try it without permission, for another reason, or without a credential", arguments: 0..<3)
    func stands(index: Int) throws {
        let bench = try CoreBench()
        bench.take([Self.job(.none), Self.job(), Self.job(app: Fixture.other)][index])
        bench.finishNext { $0.index == 0 ? Self.rejected(index == 1 ? "DeviceTokenNotForTopic" : "BadDeviceToken") : Self.accepted }
        #expect(bench.events.first { $0.outcome == (index == 1 ? .rejected : .tokenRejected) }?.isFinal == true)
        #expect(bench.retries().isEmpty)
        #expect(bench.deadLetters.isEmpty)
    }

    @Test("If no time is left for the other environment, the delivery fails, and its token is not called bad")
    func hasNoTime() throws {
        let bench = try CoreBench()
        bench.take(Self.job(expiresAt: Fixture.start + 500))
        bench.finishNext { $0.index == 0 ? Self.rejected() : Self.accepted }
        #expect(bench.events.map(\.outcome).sorted { $0.rawValue < $1.rawValue } == [.accepted, .failed])
        #expect(bench.retries().isEmpty && bench.deadLetters.count == 1)
    }

    @Test("The other environment is tried whatever the number of attempts", arguments: [1, 10])
    func hasNoAttempt(maximum: Int) throws {
        let bench = try CoreBench { $0.retries.maximumAttempts = maximum }
        bench.take(Self.job(attempt: maximum - 1))
        bench.finishNext { $0.index == 0 ? Self.rejected() : Self.accepted }
        #expect(bench.events.first { $0.outcome == .tokenRejected }?.isFinal == false)
        #expect(bench.retries(after: .oneSecond).count == 1)
    }

    @Test("After the broker's connection was lost, the copy that it delivers anew makes the try")
    func leavesItToTheCopy() throws {
        let bench = try CoreBench()
        bench.take(Self.job())
        bench.loseJobs()
        bench.finishNext { $0.index == 0 ? Self.rejected() : Self.accepted }
        #expect(bench.events.map(\.outcome) == [.accepted])
        #expect(bench.retries().isEmpty)
        bench.confirmNext()
        #expect(bench.core.isDrained)
    }

    private static func rejected(_ reason: String = "BadDeviceToken") -> APNsAnswer.Result {
        .response(status: 400, reason: reason, timestamp: nil, retryAfter: nil)
    }

    private static let accepted = APNsAnswer.Result.response(status: 200, reason: nil, timestamp: nil, retryAfter: nil)
}
