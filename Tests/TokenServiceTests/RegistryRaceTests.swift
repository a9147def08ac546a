import Postgres
import PushModel
import StrictJSON
import Testing

@Suite("One token, one installation; one installation, one owner (DESIGN.md section 8, promise 5)", .serialized, .timeLimit(.minutes(3)))
struct RegistryRaceTests {
    @Test(arguments: ["multi", "single"])
    func anyInterleavingKeepsTheInvariants(policy: String) async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp(policy: policy)
            let users = ["ada", "grace", "eve", nil]
            try await withThrowingTaskGroup(of: Void.self) { group in
                for client in 0..<12 {
                    group.addTask {
                        var random = SeededGenerator(seed: UInt64(client) + 1)
                        for _ in 0..<40 { try await Self.step(shop, users: users, &random) }
                    }
                }
                try await group.waitForAll()
            }
            try await Self.checkInvariants(running, policy: policy)
        }
    }

    private static func step(_ shop: APITestClient, users: [String?], _ random: inout SeededGenerator) async throws {
        let id = installation(Int.random(in: 1...5, using: &random))
        let device = token(Int.random(in: 1...4, using: &random))
        let user = users[Int.random(in: 0..<users.count, using: &random)]
        let choice = Int.random(in: 0..<10, using: &random)
        // 503 is what a client repeats: here, a lock that was waited for too long.
        _ = try await eventually { () -> Bool? in
            let answer: APITestClient.Answer
            switch choice {
            case 0: answer = try await shop.post("/v1/apps/shop/installations/\(id)/logout")
            case 1: answer = try await shop.post("/v1/apps/shop/tokens/logout", #"{"token":"\#(device)"}"#)
            case 2: answer = try await shop.delete("/v1/apps/shop/installations/\(id)")
            case 3: answer = try await shop.post("/v1/apps/shop/users/\(user ?? "ada")/logout", #"{"except":"\#(id)"}"#)
            default: answer = try await shop.register(id, user: user, token: device)
            }
            #expect([200, 201, 204, 503].contains(answer.status))
            return answer.status == 503 ? nil : true
        }
    }

    private static func checkInvariants(_ running: RunningService, policy: String) async throws {
        #expect(
            try await running.count(
                "SELECT count(*) FROM (SELECT 1 FROM tokens GROUP BY app_id, environment, purpose, token HAVING count(*) > 1) x") == 0)
        #expect(
            try await running.count(
                "SELECT count(*) FROM (SELECT 1 FROM tokens WHERE state = 'active' GROUP BY installation, purpose, environment HAVING count(*) > 1) x"
            ) == 0)
        // An epoch is what its newest fence says. Changes that share a commit share a fence, so there may be fewer of these than steps.
        #expect(
            try await running.count(
                """
                SELECT count(*) FROM installations i
                WHERE owner_epoch <> coalesce((SELECT max(epochs_below) FROM fences f WHERE f.installation = i.id), 1)
                """) == 0)
        #expect(
            try await running.count(
                "SELECT count(*) FROM tokens t JOIN installations i ON i.id = t.installation WHERE t.state = 'active' AND i.deregistered_at IS NOT NULL"
            ) == 0)
        if policy == "single" {
            #expect(
                try await running.count(
                    "SELECT count(*) FROM (SELECT 1 FROM installations WHERE owner IS NOT NULL GROUP BY owner HAVING count(*) > 1) x") == 0)
        }
        _ = try await eventually { try await running.count("SELECT count(*) FROM fences WHERE published_at IS NULL") == 0 ? true : nil }
    }

    @Test func theDatabaseItselfRefusesATokenInTwoPlaces() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            try await shop.register(installation(1), user: "ada", token: token(1))
            try await shop.register(installation(2), user: "grace", token: token(2))
            await #expect(throws: PostgresError.self) {
                try await running.execute(
                    "INSERT INTO tokens (app_id, environment, purpose, token, installation, registered_at) SELECT app_id, environment, purpose, token, $1, now() FROM tokens LIMIT 1",
                    [.uuid(high: installation(2).high, low: installation(2).low)])
            }
            await #expect(throws: PostgresError.self) {
                try await running.execute(
                    "UPDATE tokens SET installation = $1", [.uuid(high: installation(1).high, low: installation(1).low)])
            }
            await #expect(throws: PostgresError.self) {
                try await running.execute("INSERT INTO installations SELECT * FROM installations LIMIT 1")
            }
        }
    }

    @Test func concurrentSignInsUnderTheSinglePolicyLeaveOne() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp(policy: "single")
            try await withThrowingTaskGroup(of: Void.self) { group in
                for number in 1...16 {
                    group.addTask {
                        _ = try await eventually {
                            try await shop.register(installation(number), user: "ada", token: token(number)).status == 503 ? nil : true
                        }
                    }
                }
                try await group.waitForAll()
            }
            #expect(try await running.count("SELECT count(*) FROM installations WHERE owner = 'ada'") == 1)
        }
    }
}

/// The same sequence for the same seed (SplitMix64), so that a failure can be looked at again.
struct SeededGenerator: RandomNumberGenerator {
    private var state: UInt64

    init(seed: UInt64) { state = seed }

    mutating func next() -> UInt64 {
        state &+= 0x9e37_79b9_7f4a_7c15
        var mixed = state
        mixed = (mixed ^ (mixed >> 30)) &* 0xbf58_476d_1ce4_e5b9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94d0_49bb_1331_11eb
        return mixed ^ (mixed >> 31)
    }
}
