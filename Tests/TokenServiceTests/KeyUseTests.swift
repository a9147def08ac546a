import Postgres
import StrictJSON
import TestSupport
import Testing
import TokenService

@Suite("When a key was last used is written down behind the request", .timeLimit(.minutes(5)))
struct KeyUseTests {
    private static let path = "/v1/apps/shop/installations"

    @Test("A locked row neither delays nor fails a request") func lockedRow() async throws {
        try await RunningService.run { running in
            _ = try await running.client.makeApp()
            // The last but one, which the statement below locks.
            let locked = try await running.client.makeKey(app: "shop", scopes: ["read"])
            let free = try await running.client.makeKey(app: "shop", scopes: ["read"])
            try await running.execute("UPDATE api_keys SET name = 'locked' WHERE id = \(Self.id(locked))")
            let (held, release) = (Signal<Void>(), Signal<Void>())
            try await withThrowingTaskGroup(of: Void.self) { group in
                group.addTask {
                    try await running.pool.transactionHeld(
                        by: "SELECT id FROM api_keys WHERE name = 'locked' FOR UPDATE", held, until: release)
                }
                try await held.next()
                // A request that waited for the row would get 503 when the lock's time is up.
                #expect(try await locked.get(Self.path).status == 200)
                #expect(try await free.get(Self.path).status == 200)
                try await Self.isNoted(free, running)
                #expect(try await Self.uses(locked, running) == 0)
                release.send(())
                try await group.waitForAll()
            }
            // Once the authenticator looks the key up anew.
            _ = try await eventually {
                #expect(try await locked.get(Self.path).status == 200)
                return try await Self.uses(locked, running) == 1 ? true : nil
            }
        }
    }

    @Test("A service that stops writes down the uses before its stop") func lastUses() async throws {
        try await RunningService.run { running in
            _ = try await running.client.makeApp()
            let key = try await running.client.makeKey(app: "shop", scopes: ["read"])
            try await running.another { other in
                let answer = try await key.with(port: other.client.port).get(Self.path)
                #expect(answer.status == 200)
            }
            #expect(try await Self.uses(key, running) == 1)
        }
    }

    private static func isNoted(_ client: APITestClient, _ running: RunningService) async throws {
        _ = try await eventually { try await uses(client, running) == 1 ? true : nil }
    }

    private static func uses(_ client: APITestClient, _ running: RunningService) async throws -> Int64 {
        try await running.count("SELECT count(last_used_at) FROM api_keys WHERE id = \(id(client))")
    }

    private static func id(_ client: APITestClient) throws -> String { String(try #require(client.key).split(separator: "_")[1]) }
}
