import Observability
import Postgres
import PushModel
import StrictJSON
import TestSupport
import Testing
import TokenService

@Suite("What APNs says about tokens is done, and written down with its reason", .serialized, .timeLimit(.minutes(5)))
struct AnswerHistoryTests {
    private static func registeredAt(_ running: RunningService) async throws -> Int64 {
        try await running.number("at", "SELECT (extract(epoch FROM registered_at) * 1000)::bigint AS at FROM tokens")
    }

    @Test("A retired token's history has APNs' status, reason and timestamp") func retiredToken() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            try await shop.register(installation(1), user: "ada", token: token(1))
            let job = try await running.sendAndTake(#"{"user":"ada"}"#, with: shop)
            let at = try await Self.registeredAt(running)
            try await running.report(.tokenGone, of: job, status: 410, reason: "Unregistered", timestamp: at + 5, sentAt: at + 9)
            _ = try await running.completed(job.notification, shop)
            let line = try #require(try await running.history(installation(1), ["token_retired"]).first)
            #expect(line.reason == "Unregistered")
            #expect(line.status == 410)
            #expect(line.apnsTimestamp == at + 5)
            #expect(line.token == "\(hint(1)) production alert")
            #expect(line.delivery == job.deliveries[0].id)
        }
    }

    @Test("A rejected token is in the history, too") func rejectedToken() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            try await shop.register(installation(1), user: "ada", token: token(1))
            let job = try await running.sendAndTake(#"{"user":"ada"}"#, with: shop)
            let at = try await Self.registeredAt(running)
            try await running.report(.tokenRejected, of: job, status: 400, reason: "DeviceTokenNotForTopic", sentAt: at + 1)
            try await running.report(.tokenRejected, of: job, status: 400, reason: "DeviceTokenNotForTopic", sentAt: at + 1)
            _ = try await eventually { running.metrics.render().contains("push_token_service_outcomes_repeated_total 1") ? true : nil }
            let lines = try await running.history(installation(1), ["token_retired"])
            #expect(lines.map(\.reason) == ["DeviceTokenNotForTopic"])
            #expect(lines.first?.apnsTimestamp == nil)
        }
    }

    /// Apple's clock and ours differ: an answer cannot know what was registered after its request had left.
    @Test("A 410 from the future spares a token that was registered after the request left", arguments: [Int64(60_000), .max])
    func futureTimestamp(ahead: Int64) async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            try await shop.register(installation(1), user: "ada", token: token(1))
            let job = try await running.sendAndTake(#"{"user":"ada"}"#, with: shop)
            let first = try await Self.registeredAt(running)
            _ = try await eventually { () -> Bool? in
                try await shop.register(installation(1), user: "ada", token: token(1))
                return try await Self.registeredAt(running) > first + 1 ? true : nil
            }
            let stamp = ahead == .max ? ahead : UnixClock.now() + ahead
            try await running.report(.tokenGone, of: job, status: 410, reason: "Unregistered", timestamp: stamp, sentAt: first + 1)
            _ = try await running.completed(job.notification, shop)
            #expect(try await shop.record(installation(1)).tokenStates == ["\(hint(1)) active"])
            #expect(try await running.history(installation(1), ["token_retired"]).isEmpty)
        }
    }

    @Test("A 410 of no known moment retires nothing") func unknownMoment() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            try await shop.register(installation(1), user: "ada", token: token(1))
            let job = try await running.sendAndTake(#"{"user":"ada"}"#, with: shop)
            try await running.report(.tokenGone, of: job, status: 410, reason: "SomethingNew")
            _ = try await running.completed(job.notification, shop)
            #expect(try await shop.record(installation(1)).tokenStates == ["\(hint(1)) active"])
        }
    }

    @Test("Throttling is in the history once for as long as it lasts") func lastingThrottle() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            try await shop.register(installation(1), user: "ada", token: token(1))
            let job = try await running.sendAndTake(#"{"user":"ada"}"#, with: shop)
            let now = UnixClock.now()
            for attempt in 1...3 {
                try await running.report(
                    .throttled, of: job, final: false, status: 429, reason: "TooManyRequests", sentAt: now,
                    retryAt: now + 30_000 * Int64(attempt), attempt: attempt)
            }
            _ = try await eventually {
                try await shop.record(installation(1)).text("throttled_until") == RFC3339.text(milliseconds: now + 90_000) ? true : nil
            }
            let lines = try await running.history(installation(1), ["throttled"])
            #expect(lines.map(\.status) == [429])
            #expect(lines.first?.reason == "TooManyRequests")
            #expect(lines.first?.token == "\(hint(1)) production alert")
            try await running.execute("UPDATE installations SET throttled_until = now() - interval '1 second'")
            try await running.report(
                .throttled, of: job, final: false, status: 429, reason: "TooManyRequests", sentAt: now, retryAt: now + 200_000, attempt: 4)
            _ = try await eventually { try await running.history(installation(1), ["throttled"]).count == 2 ? true : nil }
        }
    }

    @Test("The first accepted delivery proves the environment, and no later one touches the token") func firstProof() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            try await shop.register(installation(1), user: "ada", token: token(1))
            var writers: [Int64] = []
            for _ in 1...2 {
                let job = try await running.sendAndTake(#"{"user":"ada"}"#, with: shop)
                try await running.report(.accepted, of: job, status: 200)
                _ = try await running.completed(job.notification, shop)
                writers.append(
                    try await running.number("xmin", "SELECT xmin::text::bigint AS xmin FROM tokens WHERE proven_at IS NOT NULL"))
            }
            #expect(writers[0] == writers[1], "the transaction that wrote the token's row is still the first outcome's")
        }
    }

    @Test("Only an accepted delivery proves a token", arguments: OutcomeClass.allCases.filter { $0 != .accepted })
    func otherOutcomes(outcome: OutcomeClass) async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            try await shop.register(installation(1), user: "ada", token: token(1))
            let job = try await running.sendAndTake(#"{"user":"ada"}"#, with: shop)
            try await running.report(outcome, of: job, status: 403)
            _ = try await running.completed(job.notification, shop)
            #expect(try await running.count("SELECT count(*) FROM tokens WHERE proven_at IS NOT NULL") == 0)
        }
    }
}
