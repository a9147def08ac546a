import HTTPTypes
import Postgres
import PushModel
import StrictJSON
import Testing
import TokenService

/// Every route of the table × no key, a bad key, the wrong scope, another app. A new route is tested by being in the table.
@Suite("Who may do what (DESIGN.md section 10)", .serialized, .timeLimit(.minutes(2)))
struct AuthorisationTests {
    private static func path(_ route: APIRoute, app: String = "shop") -> String {
        route.path.replacing("{app}", with: app).replacing("{user}", with: "ada")
            .replacing("{id}", with: route == .revokeKey ? "0123456789abcdef" : installation(1).description)
    }

    @Test func everyRouteAsksForAKeyAndItsScope() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            _ = try await running.client.makeApp("other")
            let forged = APIKeyText.generate().text
            let real = try #require(shop.key)
            let wrongSecret = String(real.dropLast(48)) + String(repeating: "0", count: 48)
            for route in APIRoute.all {
                let name = "\(route.method.rawValue) \(route.path)"
                for bad in [nil, forged, wrongSecret, "psh_x", real.uppercased()] {
                    let answer = try await running.client.with(key: bad).call(route.method.rawValue, Self.path(route))
                    #expect(answer.status == 401, "\(name) with a bad key")
                    #expect(answer.code == "unauthenticated")
                    #expect(answer.header("content-type") == "application/problem+json")
                }
                let others = Scope.allCases.filter { !route.scopes.contains($0) }.map(\.rawValue)
                let wrong = try await running.client.makeKey(app: nil, scopes: others)
                let refused = try await wrong.call(route.method.rawValue, Self.path(route))
                #expect(refused.status == 403, "\(name) with \(others)")
                let right = route.scopes.map(\.rawValue)
                let bound = try await running.client.makeKey(app: "other", scopes: right)
                let foreign = try await bound.call(route.method.rawValue, Self.path(route), "{}")
                #expect(foreign.status == (route.isAdministrative ? 403 : 404), "\(name) with another app's key")
                let unknown = try await running.client.makeKey(app: nil, scopes: right).call(
                    route.method.rawValue, Self.path(route, app: "nothing"), "{}")
                if route.isOfApp {
                    #expect(unknown.status == 404)
                    #expect(unknown.bytes == foreign.bytes, "another app's key learns whether the app exists: \(name)")
                }
            }
        }
    }

    @Test func aRevokedOrExpiredKeyIsNoKey() async throws {
        try await RunningService.run { running in
            _ = try await running.client.makeApp()
            let reader = try await running.client.makeKey(app: "shop", scopes: ["read"])
            let path = "/v1/apps/shop/installations/\(installation(1))"
            #expect(try await reader.get(path).status == 404)
            let id = try #require(reader.key).split(separator: "_")[1]
            #expect(try await running.client.delete("/v1/admin/keys/\(id)").status == 204)
            #expect(try await reader.get(path).status == 401)
            let expired = try await running.client.post(
                "/v1/admin/keys", #"{"app":"shop","name":"old","scopes":["read"],"expires_at":"2020-01-01T00:00:00Z"}"#)
            #expect(try await running.client.with(key: expired.json.text("key")).get(path).status == 401)
            let listed = try await running.client.get("/v1/admin/keys").json["keys"]?.arrayValue ?? []
            #expect(listed.allSatisfy { $0["key"] == nil })
            #expect(listed.contains { $0.text("id") == String(id) && $0.text("revoked_at") != nil && $0.text("last_used_at") != nil })
        }
    }

    @Test func onlyADigestOfTheSecretIsStored() async throws {
        try await RunningService.run { running in
            _ = try await running.client.makeApp()
            let key = try await running.client.makeKey(app: "shop", scopes: ["read"])
            let secret = try #require(key.key).split(separator: "_")[2]
            let hits = try await running.count(
                "SELECT count(*) FROM api_keys k WHERE position($1 in k::text) > 0 OR position(encode($1::text::bytea, 'hex') in k::text) > 0",
                [.text(String(secret))])
            #expect(hits == 0)
        }
    }

    @Test func aHealthCheckNeedsNoKeyAndTellsNothing() async throws {
        try await RunningService.run { running in
            let anyone = running.client.with(key: nil)
            for (path, status) in [("/healthz", 200), ("/metrics", 200), ("/nothing/here", 404)] {
                let answer = try await anyone.get(path)
                #expect(answer.status == status)
            }
        }
    }
}
