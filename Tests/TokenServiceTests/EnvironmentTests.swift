import Broker
import Observability
import Postgres
import PushModel
import StrictJSON
import TestBroker
import TestSupport
import Testing
import TokenService

@Suite("An environment is the client's word until APNs has accepted the token", .serialized, .timeLimit(.minutes(5)))
struct EnvironmentTests {
    /// Installation 1 registers token 1 for production, and a notification is on its way to it.
    private static func sent(_ running: RunningService) async throws -> (shop: APITestClient, job: PushJob) {
        let shop = try await running.client.makeApp()
        try await shop.register(installation(1), user: "ada", token: token(1))
        return (shop, try await running.sendAndTake(#"{"user":"ada"}"#, with: shop))
    }

    /// What a dispatcher reports that was refused in production and asked the sandbox.
    private static func answer(
        _ outcome: OutcomeClass, _ running: RunningService, _ shop: APITestClient, _ job: PushJob, timestamp: Int64? = nil
    ) async throws -> JSONValue {
        let now = UnixClock.now()
        try await running.report(
            .tokenRejected, of: job, final: false, status: 400, reason: "BadDeviceToken", sentAt: now, retryAt: now + 1000)
        try await running.report(
            outcome, of: job, status: [.accepted: 200, .tokenGone: 410][outcome] ?? 400,
            reason: outcome == .accepted ? nil : "BadDeviceToken",
            timestamp: timestamp, sentAt: now, attempt: 2, environment: .sandbox)
        return try await running.completed(job.notification, shop).json
    }

    private static func tokens(_ running: RunningService) async throws -> [String] {
        try await running.pool.session { session in
            try session.execute(
                """
                SELECT concat_ws(' ', environment, state, retired_reason, CASE WHEN proven_at IS NOT NULL THEN 'proven' END,
                    right(installation::text, 3)) AS line
                FROM tokens ORDER BY environment, id
                """
            ).column("line")
        }
    }

    @Test("A dispatcher may try a token in the other environment only if it is unproven and its app has both environments")
    func environmentTrials() async throws {
        try await RunningService.run { running in
            let (shop, job) = try await Self.sent(running)
            #expect(job.deliveries.map(\.environmentTrial) == [.allowed])
            try await running.report(.accepted, of: job, status: 200)
            _ = try await running.completed(job.notification, shop)
            #expect(try await running.sendAndTake(#"{"user":"ada"}"#, with: shop).deliveries.map(\.environmentTrial) == [.none])
            _ = try await running.client.post(
                "/v1/admin/apps",
                #"{"slug":"one","bundle_id":"com.example.one","device_policy":"multi","environments":["production"]}"#)
            let one = try await running.client.makeKey(app: "one", scopes: ["devices", "send"])
            try await one.register(installation(1), user: "ada", token: token(1), app: "one")
            let only = try await running.jobs { signal in
                #expect(try await one.send(#"{"user":"ada"}"#, app: "one").status == 202)
                return try PushJob(decoding: try await signal.next().body)
            }
            #expect(only.deliveries.map(\.environmentTrial) == [.none])
        }
    }

    @Test("A job that the relay publishes allows the trial, too") func trialByRelay() async throws {
        var options = RunningService.Options()
        options.settings = ["RELAY_LEASE_SECONDS": "1"]
        try await RunningService.run(options) { running in
            let (_, job) = try await Self.sent(running)
            // Or else the accepting process notes that it has published the job after the update.
            try await running.allPublished()
            try await running.forgetPublishing()
            let again = try await running.jobs { signal in try PushJob(decoding: try await signal.next().body) }
            #expect(again.deliveries == job.deliveries)
        }
    }

    @Test("The environment that accepted the token is its environment from then on") func acceptingEnvironment() async throws {
        try await RunningService.run { running in
            let (shop, job) = try await Self.sent(running)
            let status = try await Self.answer(.accepted, running, shop, job)
            #expect(status["deliveries"]?[0]?.text("environment") == "sandbox")
            #expect(status["counts"]?.number("accepted") == 1)
            #expect(try await Self.tokens(running) == ["sandbox active proven 001"])
            let line = try #require(try await running.history(installation(1), ["environment_corrected", "token_retired"]).first)
            #expect(line.event == "environment_corrected" && line.reason == "was_production" && line.token == "\(hint(1)) sandbox alert")
            try await running.counted("environments_corrected_total", 1)
            let next = try await running.sendAndTake(#"{"user":"ada"}"#, with: shop)
            #expect(next.deliveries.map(\.environment) == [.sandbox])
            #expect(next.deliveries.map(\.environmentTrial) == [.none])
        }
    }

    @Test("The service retires a token that neither environment knows") func unknownToken() async throws {
        try await RunningService.run { running in
            let (shop, job) = try await Self.sent(running)
            _ = try await Self.answer(.tokenRejected, running, shop, job)
            #expect(try await Self.tokens(running) == ["production retired rejected 001"])
        }
    }

    @Test("The service retires a token that is gone from the other environment") func goneToken() async throws {
        try await RunningService.run { running in
            let (shop, job) = try await Self.sent(running)
            _ = try await Self.answer(.tokenGone, running, shop, job, timestamp: UnixClock.now() + 1000)
            #expect(try await Self.tokens(running) == ["production retired gone 001"])
        }
    }

    /// Sent before the correction was known, answered after it.
    @Test("A rejection from an environment that the token has left retires nothing") func lateRejection() async throws {
        try await RunningService.run { running in
            let (shop, first) = try await Self.sent(running)
            let second = try await running.sendAndTake(#"{"user":"ada"}"#, with: shop)
            _ = try await Self.answer(.accepted, running, shop, first)
            try await running.report(.tokenRejected, of: second, status: 400, reason: "BadDeviceToken", sentAt: UnixClock.now() + 1000)
            _ = try await running.completed(second.notification, shop)
            #expect(try await Self.tokens(running) == ["sandbox active proven 001"])
        }
    }

    @Test("If several notifications find the same environment, the service corrects the token once") func sameDiscovery() async throws {
        try await RunningService.run { running in
            try await running.another { _ in
                let (shop, first) = try await Self.sent(running)
                let others = try await [
                    running.sendAndTake(#"{"user":"ada"}"#, with: shop), running.sendAndTake(#"{"user":"ada"}"#, with: shop),
                ]
                try await withThrowingTaskGroup(of: Void.self) { group in
                    for job in others + [first] { group.addTask { _ = try await Self.answer(.accepted, running, shop, job) } }
                    try await group.waitForAll()
                }
                #expect(try await Self.tokens(running) == ["sandbox active proven 001"])
                #expect(try await running.history(installation(1), ["environment_corrected"]).count == 1)
            }
        }
    }

    @Test("A token that another user registered in that environment since then stays with that user") func registeredSince() async throws {
        try await RunningService.run { running in
            let (shop, job) = try await Self.sent(running)
            try await shop.register(installation(2), user: "bob", token: token(1), environment: "sandbox")
            _ = try await Self.answer(.accepted, running, shop, job)
            #expect(try await Self.tokens(running) == ["production retired replaced 002", "sandbox active 002"])
            #expect(try await running.history(installation(1), ["token_moved_away"]).count == 1)
        }
    }

    @Test("If the token has a retired row in that environment, that row comes back instead") func revivedRow() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            try await shop.register(installation(1), user: "ada", token: token(1), environment: "sandbox")
            try await shop.register(installation(1), user: "ada", token: token(1))
            let job = try await running.sendAndTake(#"{"user":"ada"}"#, with: shop)
            _ = try await Self.answer(.accepted, running, shop, job)
            #expect(try await Self.tokens(running) == ["production retired replaced 001", "sandbox active proven 001"])
            #expect(try await running.history(installation(1), ["environment_corrected"]).count == 1)
        }
    }

    @Test("A token yields if another token has its place in that environment") func takenPlace() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            let body =
                #"""
                {"user":"ada","tokens":[{"token":"\#(token(1))","environment":"production"},{"token":"\#(token(2))",\#
                "environment":"sandbox"}]}
                """#
            #expect(try await shop.put("/v1/apps/shop/installations/\(installation(1))", body).status == 201)
            var job = try await running.sendAndTake(#"{"user":"ada"}"#, with: shop)
            let whole = job
            job.deliveries.removeAll { $0.environment == .sandbox }
            try await running.report(.accepted, of: job, status: 200, attempt: 2, environment: .sandbox)
            job.deliveries = whole.deliveries.filter { $0.environment == .sandbox }
            try await running.report(.accepted, of: job, status: 200)
            _ = try await running.completed(job.notification, shop)
            #expect(try await Self.tokens(running) == ["production retired replaced 001", "sandbox active proven 001"])
        }
    }

    /// Registrations that name the other environment race with corrections; nothing is given up and no constraint is hurt.
    @Test("Corrections and registrations that race retire no token and violate no constraint") func racingCorrections() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            for number in 1...20 { try await shop.register(installation(number), user: "ada", token: token(number)) }
            let job = try await running.sendAndTake(#"{"user":"ada"}"#, with: shop)
            try await withThrowingTaskGroup(of: Void.self) { group in
                group.addTask { _ = try await Self.answer(.accepted, running, shop, job) }
                for number in 1...20 {
                    group.addTask {
                        let holder = number.isMultiple(of: 2) ? number : 100 + number
                        let answer = try await shop.register(
                            installation(holder), user: "ada", token: token(number), environment: "sandbox")
                        #expect(answer.status < 300)
                    }
                }
                try await group.waitForAll()
            }
            #expect(
                try await running.count("SELECT count(DISTINCT token) FROM tokens WHERE state = 'active' AND environment = 'sandbox'") == 20
            )
            #expect(!running.metrics.render().contains("undecodable_total 1"))
            #expect(try await TestBroker.messageCount(running.topology.deadQueue, running.broker) == 0)
        }
    }
}
