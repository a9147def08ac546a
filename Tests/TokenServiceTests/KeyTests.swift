import Postgres
import PushModel
import StrictJSON
import TestDatabase
import TestSupport
import Testing
import TokenService

@Suite("Keys are rotated without downtime", .serialized, .timeLimit(.minutes(5)))
struct KeyTests {
    private static let path = "/v1/apps/shop/users/ada/installations"

    /// What `GET /v1/admin/keys` says of one.
    private static func listed(_ id: String?, _ running: RunningService) async throws -> JSONValue? {
        try await running.client.get("/v1/admin/keys").json["keys"]?.arrayValue?.first { $0.text("id") == id }
    }

    /// A key of the shop's, and its id.
    private static func makeKey(_ running: RunningService, _ more: String = "") async throws -> (APITestClient, String) {
        _ = try await running.client.makeApp()
        let made = try await running.client.post(
            "/v1/admin/keys", #"{"app":"shop","name":"orders","scopes":["read","send"]\#(more)}"#)
        #expect(made.status == 201)
        return (running.client.with(key: made.json.text("key")), try #require(made.json.text("id")))
    }

    private static func rotate(_ id: String, _ running: RunningService, _ body: String? = nil) async throws -> APITestClient.Answer {
        try await running.client.post("/v1/admin/keys/\(id)/rotate", body)
    }

    @Test("The new key has the same rights, and both keys live through the overlap") func bothKeys() async throws {
        try await RunningService.run { running in
            let (old, id) = try await Self.makeKey(running, #","requests_per_second":77"#)
            #expect(try await old.get(Self.path).status == 200)
            let before = UnixClock.now()
            let rotated = try await Self.rotate(id, running)
            #expect(rotated.status == 201)
            let successor = try #require(rotated.json.text("id"))
            #expect(successor != id && rotated.json.text("rotated_from") == id && rotated.json["previous"]?.text("id") == id)
            #expect(rotated.json["previous"]?["key"] == nil)
            #expect(rotated.json.text("name") == "orders" && rotated.json.text("app") == "shop")
            #expect(rotated.json["scopes"]?.arrayValue?.compactMap(\.stringValue) == ["send", "read"])
            #expect(rotated.json.number("requests_per_second") == 77 && rotated.json["expires_at"] == nil)
            let new = running.client.with(key: rotated.json.text("key"))
            #expect(try await new.get(Self.path).status == 200)
            #expect(try await old.get(Self.path).status == 200)
            let listedOld = try #require(try await Self.listed(id, running))
            // A use is written down behind its request.
            let listedNew = try await eventually {
                let key = try #require(try await Self.listed(successor, running))
                return key.text("last_used_at") == nil ? nil : key
            }
            #expect(listedOld.text("state") == "expiring" && listedNew.text("state") == "live" && listedNew["key"] == nil)
            #expect(listedNew.text("rotated_from") == id)
            let end = try #require(listedOld.text("expires_at").flatMap { RFC3339.milliseconds($0) })
            #expect((before + 86_000_000...UnixClock.now() + 86_500_000).contains(end), "a day by default")
        }
    }

    @Test("Without an overlap the old key ends at once") func noOverlap() async throws {
        try await RunningService.run { running in
            let (old, id) = try await Self.makeKey(running)
            #expect(try await old.get(Self.path).status == 200)
            let rotated = try await Self.rotate(id, running, #"{"overlap_seconds":0,"expires_at":"2999-01-01T00:00:00Z"}"#)
            #expect(rotated.status == 201 && rotated.json.text("expires_at") == "2999-01-01T00:00:00.000Z")
            #expect(try await old.get(Self.path).status == 401)
            #expect(try await running.client.with(key: rotated.json.text("key")).get(Self.path).status == 200)
            #expect(try await Self.listed(id, running)?.text("state") == "expired")
        }
    }

    /// The service remembers a good key for a while, but never past its end.
    @Test("A cached key ends when it expires") func cachedKey() async throws {
        try await RunningService.run { running in
            let (key, id) = try await Self.makeKey(running)
            try await running.execute("UPDATE api_keys SET expires_at = now() + interval '1 second' WHERE id = \(id)")
            #expect(try await key.get(Self.path).status == 200)
            _ = try await eventually {
                let over = try await running.number("over", "SELECT (expires_at <= now())::int AS over FROM api_keys WHERE id = \(id)")
                return over == 1 ? true : nil
            }
            #expect(try await key.get(Self.path).status == 401)
        }
    }

    /// The database may have done it, and only its answer was lost.
    @Test("After an attempt to end a key, the service looks the key up anew", arguments: [("DELETE", ""), ("POST", "/rotate")])
    func attemptedEnd(method: String, action: String) async throws {
        let proxy = try FaultProxy(port: RunningService.port(of: TestServer.uri()))
        try await RunningService.run(.init(postgresPort: proxy.port)) { running in
            let (key, id) = try await Self.makeKey(running)
            #expect(try await key.get(Self.path).status == 200)
            try await running.execute("UPDATE api_keys SET revoked_at = now() WHERE id = \(id)")
            proxy.set(.refusing)
            proxy.cut()
            #expect(try await running.client.call(method, "/v1/admin/keys/\(id)\(action)").status == 503)
            proxy.set(.forwarding)
            let answer = try await eventually { () -> APITestClient.Answer? in
                let answer = try await key.get(Self.path)
                return answer.status == 503 ? nil : answer
            }
            #expect(answer.status == 401)
        }
        proxy.stop()
    }

    @Test("An overlap never makes the old key live longer") func earlierEnd() async throws {
        try await RunningService.run { running in
            let (_, id) = try await Self.makeKey(running)
            try await running.execute("UPDATE api_keys SET expires_at = now() + interval '1 hour' WHERE id = \(id)")
            let end = try await Self.listed(id, running)?.text("expires_at")
            let rotated = try await Self.rotate(id, running)
            #expect(end != nil && rotated.json["previous"]?.text("expires_at") == end)
        }
    }

    @Test("The service does not rotate a key that has ended or was rotated already") func endedKeys() async throws {
        try await RunningService.run { running in
            let (_, id) = try await Self.makeKey(running)
            let first = try await Self.rotate(id, running)
            let successor = try #require(first.json.text("id"))
            let again = try await Self.rotate(id, running)
            #expect(again.status == 409 && again.code == "key_already_rotated")
            #expect(again.json.text("detail")?.contains(successor) == true)
            #expect(try await running.client.delete("/v1/admin/keys/\(successor)").status == 204)
            #expect(try await Self.rotate(id, running).status == 201, "the answer with the secret was lost: revoke and try again")
            let revoked = try await Self.rotate(successor, running)
            #expect(revoked.status == 409 && revoked.code == "key_not_live")
            try await running.execute("UPDATE api_keys SET expires_at = now() WHERE id = \(id)")
            let expired = try await Self.rotate(id, running)
            #expect(expired.status == 409 && expired.json.text("detail")?.contains("expired") == true)
            #expect(try await Self.rotate("0123456789abcdef", running).status == 404)
        }
    }

    @Test("Simultaneous rotations make one successor") func oneSuccessor() async throws {
        try await RunningService.run { running in
            let (_, id) = try await Self.makeKey(running)
            let statuses = try await withThrowingTaskGroup(of: Int.self) { group in
                for _ in 0..<8 { group.addTask { try await Self.rotate(id, running).status } }
                return try await group.reduce(into: []) { $0.append($1) }
            }
            #expect(statuses.sorted() == [201] + Array(repeating: 409, count: 7))
        }
    }

    @Test(
        "The service refuses a bad rotation",
        arguments: [
            (#"{"overlap_seconds":-1}"#, "/overlap_seconds out_of_range"),
            (#"{"overlap_seconds":2592001}"#, "/overlap_seconds out_of_range"),
            (#"{"expires_at":"soon"}"#, "/expires_at invalid_time"), (#"{"name":"x"}"#, "/name unknown_field"),
        ])
    func badRotation(body: String, problem: String) async throws {
        try await RunningService.run { running in
            let (_, id) = try await Self.makeKey(running)
            let refused = try await Self.rotate(id, running, body)
            #expect(refused.status == 400 && refused.problems == [problem])
            #expect(try await running.count("SELECT count(*) FROM api_keys WHERE rotated_from IS NOT NULL") == 0)
        }
    }
}
