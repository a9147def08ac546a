import Postgres
import PushModel
import StrictJSON
import Testing
import TokenService

/// Every route × everyone who may not use it is in ``AuthorisationMatrixTests``.
@Suite("What a key is", .serialized, .timeLimit(.minutes(5)))
struct AuthorisationTests {
    @Test("The service refuses a revoked key and an expired key") func endedKeys() async throws {
        try await RunningService.run { running in
            _ = try await running.client.makeApp()
            let reader = try await running.client.makeKey(app: "shop", scopes: ["read"])
            let path = "/v1/apps/shop/installations/\(installation(1))"
            #expect(try await reader.get(path).status == 404)
            let id = try #require(reader.key).split(separator: "_")[1]
            func used() async throws -> [JSONValue]? {
                let keys = try await running.client.get("/v1/admin/keys").json["keys"]?.arrayValue ?? []
                return keys.contains { $0.text("id") == String(id) && $0.text("last_used_at") != nil } ? keys : nil
            }
            // A use is written down behind its request, and passes over a key that a revocation has locked.
            _ = try await eventually { try await used() }
            #expect(try await running.client.delete("/v1/admin/keys/\(id)").status == 204)
            #expect(try await reader.get(path).status == 401)
            let expired = try await running.client.post(
                "/v1/admin/keys", #"{"app":"shop","name":"old","scopes":["read"],"expires_at":"2020-01-01T00:00:00Z"}"#)
            #expect(try await running.client.with(key: expired.json.text("key")).get(path).status == 401)
            let listed = try #require(try await used())
            #expect(listed.allSatisfy { $0["key"] == nil })
            #expect(listed.contains { $0.text("id") == String(id) && $0.text("revoked_at") != nil })
        }
    }

    @Test("The database stores only a digest of the secret") func digestOnly() async throws {
        try await RunningService.run { running in
            _ = try await running.client.makeApp()
            let key = try await running.client.makeKey(app: "shop", scopes: ["read"])
            let secret = String(try #require(key.key).split(separator: "_")[2])
            let hits = try await running.count(
                """
                SELECT count(*) FROM api_keys k
                WHERE position(\(secret) in k::text) > 0 OR position(encode(\(secret)::text::bytea, 'hex') in k::text) > 0
                """)
            #expect(hits == 0)
        }
    }

    @Test("The service answers health checks, metrics and unknown paths without a key") func healthChecks() async throws {
        try await RunningService.run { running in
            let anyone = running.client.with(key: nil)
            for (path, status) in [("/healthz", 200), ("/metrics", 200), ("/nothing/here", 404)] {
                let answer = try await anyone.get(path)
                #expect(answer.status == status)
            }
        }
    }
}
