import Postgres
import PushModel
import StrictJSON
import Testing
import TokenService

@Suite("The single policy for users of very many installations (rule 5)", .serialized, .timeLimit(.minutes(5)))
struct SupersessionTests {
    /// An app that has just become `single`, where one user has as many installations as no user should have.
    private static func crowded(_ running: RunningService, users: [String] = ["ada"], count: Int) async throws -> APITestClient {
        let shop = try await running.client.makeApp()
        for user in users { try await running.fill(user: user, count: count) }
        let switched = try await running.client.call("PATCH", "/v1/admin/apps/shop", #"{"device_policy":"single"}"#)
        #expect(switched.status == 200)
        return shop
    }

    @Test("The service signs the other installations out in several transactions") func severalTransactions() async throws {
        try await RunningService.run { running in
            let shop = try await Self.crowded(running, count: 350)
            let answer = try await shop.register(installation(1), user: "ada", token: token(1))
            #expect(answer.status == 201)
            #expect(try await running.count("SELECT count(*) FROM installations WHERE owner = 'ada'") == 1)
            #expect(try await shop.record(installation(1)).text("user") == "ada")
            #expect(try await running.count("SELECT count(*) FROM installations WHERE signed_out_reason = 'superseded'") == 350)
            #expect(
                try await running.count("SELECT count(DISTINCT xmin::text) FROM installations WHERE signed_out_reason = 'superseded'") == 4)
            let recorded = try await running.count(
                """
                SELECT count(*) FROM installation_history
                WHERE event = 'signed_out' AND reason = 'superseded' AND owner = 'ada' AND owner_epoch = 1
                    AND other_installation = \(installation(1))
                """)
            #expect(recorded == 350)
            #expect(try await running.fences().count == 350)
        }
    }

    /// So that what was cut short goes on, and no caller pays for what is done.
    @Test("The registration itself signs out a page or less") func singlePage() async throws {
        try await RunningService.run { running in
            let shop = try await Self.crowded(running, count: 100)
            try await shop.register(installation(1), user: "ada", token: token(1))
            #expect(try await running.count("SELECT count(*) FROM installations WHERE signed_out_reason = 'superseded'") == 100)
            #expect(try await running.count("SELECT count(DISTINCT xmin::text) FROM installations") == 1)
        }
    }

    @Test("A refused request signs no installation out") func refusedRequests() async throws {
        try await RunningService.run { running in
            let shop = try await Self.crowded(running, count: 250)
            let path = "/v1/apps/shop/installations/\(installation(1))"
            let unexpected = try await shop.register(installation(1), user: "ada", token: token(1), more: #","expected_user":"grace""#)
            #expect(unexpected.status == 409)
            #expect(try await shop.call("PATCH", path, #"{"user":"ada"}"#).status == 404)
            let unmatched = try await shop.call("PUT", path, #"{"user":"ada","tokens":[]}"#, headers: ["If-Match": "\"else\""])
            #expect(unmatched.status == 412)
            #expect(try await running.count("SELECT count(*) FROM installations WHERE owner = 'ada'") == 250)
            #expect(try await running.fences().isEmpty)
        }
    }

    /// One hundred others are what the registration itself signs out; of one more it refuses before it signs out any.
    @Test("A device that has used up its lines signs no installation out", arguments: [100, 101]) func usedUpLines(others: Int) async throws
    {
        try await RunningService.run { running in
            let shop = try await Self.crowded(running, count: others)
            try await shop.register(installation(1), user: nil, token: token(1))
            try await running.execute(
                "UPDATE installations SET lines_count_until = now() + interval '80 minutes' WHERE id = \(installation(1))")
            let answer = try await shop.register(installation(1), user: "ada", token: token(1))
            #expect(answer.status == 429 && answer.code == "too_many_changes", "\(answer.json)")
            #expect(try await running.count("SELECT count(*) FROM installations WHERE owner = 'ada'") == others)
            #expect(try await running.fences().isEmpty)
        }
    }

    /// Ten users with a page each are as much for one transaction as one user with ten.
    @Test("One bound holds for the many users of one batch together") func manyUsers() async throws {
        try await RunningService.run { running in
            let users = (1...12).map { "user\($0)" }
            let shop = try await Self.crowded(running, users: users, count: 95)
            let items = users.enumerated().map { index, user in #"{"id":"\#(installation(index + 1))","user":"\#(user)","tokens":[]}"# }
            let answer = try await shop.post("/v1/apps/shop/installations", #"{"installations":[\#(items.joined(separator: ","))]}"#)
            #expect(answer.json["results"]?.arrayValue?.compactMap { $0.number("status") } == users.map { _ in 201 })
            #expect(try await running.count("SELECT count(*) FROM installations WHERE owner IS NOT NULL") == 12)
            let largest = try await running.count(
                """
                SELECT max(n) AS count FROM (SELECT count(*) AS n FROM installations WHERE signed_out_reason = 'superseded'
                    GROUP BY xmin::text) AS t
                """)
            #expect(largest <= 1000)
        }
    }
}
