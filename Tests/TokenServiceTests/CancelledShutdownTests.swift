import AsyncHTTPClient
import Broker
import HTTPTypes
import Postgres
import PushModel
import TestBroker
import TestSupport
import Testing

@testable import TokenService
@testable import TokenServiceKit
@testable import TokenServiceSending

@Suite("A shutdown that has no more time", .serialized, .timeLimit(.minutes(5)))
struct CancelledShutdownTests {
    private static let options = RunningService.Options(
        settings: ["POSTGRES_POOL_SIZE": "2", "POSTGRES_BACKGROUND_POOL_SIZE": "1"], without: { $0 is Relay },
        shutdownDeadline: .milliseconds(300))

    @Test("Callers in flight are answered 503 with Retry-After, or their connection ends: never 500") func callers() async throws {
        try await RunningService.run(Self.options) { running in
            let shop = try await running.client.makeApp()
            try await shop.register(installation(1), user: "ada", token: token(1))
            let answers = try await running.holding("LOCK TABLE installations IN ACCESS EXCLUSIVE MODE") {
                try await withThrowingTaskGroup(of: APITestClient.Answer?.self) { group in
                    for _ in 1...8 {
                        group.addTask {
                            do {
                                return try await shop.get("/v1/apps/shop/installations/\(installation(1))")
                            } catch let error as HTTPClientError where error == .remoteConnectionClosed {
                                return nil
                            }
                        }
                    }
                    try await running.counted("http_requests_in_progress", 8)
                    await running.stop()
                    var answers: [APITestClient.Answer?] = []
                    while answers.count < 6, let answer = try await group.next() { answers.append(answer) }
                    group.cancelAll()
                    return answers
                }
            }
            #expect(answers.count == 6)
            // Hummingbird may close every connection first, so the answer is asked for here as well.
            let answer = APIError(cause: CancellationError())
            #expect(answer.status == .serviceUnavailable && answer.code == .shuttingDown && answer.isRetryable)
            for answer in answers.compactMap(\.self) {
                #expect(answer.status == 503 && answer.code == "shutting_down" && answer.header("retry-after") != nil)
            }
        }
    }

    @Test("No outcome message is given up: the broker keeps it for the next process") func outcomes() async throws {
        let lines = LogLines()
        var options = Self.options
        options.logger = lines.logger
        try await RunningService.run(options) { running in
            let shop = try await running.client.makeApp()
            try await shop.register(installation(1), user: "ada", token: token(1))
            var jobs: [PushJob] = []
            for _ in 1...2 { jobs.append(try await running.sendAndTake(#"{"user":"ada"}"#, with: shop)) }
            try await running.allPublished()
            let (pool, reported) = (running.service.background, jobs)
            // The only connection of the services is taken, and the outcomes wait for it.
            try await running.holding("SELECT 1", in: pool) {
                for job in reported { try await running.report(.accepted, of: job, status: 200) }
                _ = try await eventually {
                    try await TestBroker.messageCount(running.topology.tokenServiceOutcomesQueue, running.broker) == 0 ? true : nil
                }
                _ = try await eventually { pool.gauges.waiting >= 1 ? true : nil }
                await running.stop()
                _ = try await eventually { pool.gauges.waiting == 0 ? true : nil }
            }
            #expect(lines.all.filter { $0.contains("given up") } == [])
            _ = try await eventually {
                try await TestBroker.messageCount(running.topology.tokenServiceOutcomesQueue, running.broker) == 2 ? true : nil
            }
            #expect(try await TestBroker.messageCount(running.topology.deadQueue, running.broker) == 0)
        }
    }
}
