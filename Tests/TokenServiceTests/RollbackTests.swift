import Postgres
import PushModel
import Testing
import TokenService

/// A refusal is thrown within its transaction, which then rolls back. Where requests of several callers share a transaction, a refused one has
/// written nothing. Here each caller may use the route, and what it names is its own.
@Suite("A refused request changes no row", .timeLimit(.minutes(5)))
struct RollbackTests {
    private struct Refusal: Sendable {
        let status: Int
        let code: String
        let method: String
        let path: String
        var body: String?
        var headers: [String: String] = [:]

        init(_ status: Int, _ code: String, _ method: String, _ path: String, _ body: String? = nil, headers: [String: String] = [:]) {
            (self.status, self.code, self.method, self.path, self.body, self.headers) = (status, code, method, path, body, headers)
        }
    }

    /// The codes of these statuses that no case provokes here.
    private static let elsewhere = [
        "idempotency_in_progress": "another request has the key: NotificationTests",
        "dead_letters_busy": "another request reads the queue: DeadLetterTests",
        "channel_refused": "Apple's refusal is recorded: ChannelTests",
    ]

    @Test("Nothing changes for 404, 409, 412, 422 and the refusals of a state") func changesNothing() async throws {
        try await RunningService.run { running in
            let world = try await World(running)
            let refusals = world.refusals()
            for refusal in refusals {
                let client = refusal.path.hasPrefix("/v1/admin/") ? running.client : world.shop
                let before = try await running.fingerprint()
                let answer = try await client.call(refusal.method, refusal.path, refusal.body, headers: refusal.headers)
                let name = "\(refusal.method) \(refusal.path) \(refusal.body ?? "")"
                #expect(answer.status == refusal.status && answer.code == refusal.code, "\(name): \(answer.json)")
                let changed = try await running.changed(since: before)
                #expect(changed.isEmpty, "\(name), refused with \(refusal.code), changed rows of \(changed)")
            }
            let stated = ProblemCode.allCases.filter { [404, 409, 412, 422].contains($0.kind.status) }.map(\.rawValue)
            #expect(Set(stated).subtracting(refusals.map(\.code)) == Set(Self.elsewhere.keys))
        }
    }

    /// An app with something of each kind that a request can be refused for. Nothing in it changes by itself.
    private struct World {
        let shop: APITestClient
        private let rotated: String
        private let revoked: String
        private let webhook: String
        private let globalHold: String

        init(_ running: RunningService) async throws {
            _ = try await running.client.makeApp()
            shop = try await running.client.makeKey(app: "shop", scopes: Scope.allCases.map(\.rawValue))
            #expect(try await shop.register(installation(1), user: "ada", token: token(1)).status == 201)
            #expect(try await shop.register(installation(2), user: "grace", token: token(2)).status == 201)
            #expect(try await shop.send(#"{"user":"nobody"}"#, headers: ["idempotency-key": "used"]).status == 202)
            for statement in Self.rows { try await running.execute(statement) }
            func key() async throws -> String {
                String(try #require(try await running.client.makeKey(app: "shop", scopes: ["read"]).key).split(separator: "_")[1])
            }
            (rotated, revoked) = (try await key(), try await key())
            #expect(try await running.client.post("/v1/admin/keys/\(rotated)/rotate").status == 201)
            #expect(try await running.client.delete("/v1/admin/keys/\(revoked)").status == 204)
            webhook = try #require(try await running.texts("id", "SELECT id::text AS id FROM webhooks LIMIT 1").first)
            globalHold = try #require(try await running.texts("id", "SELECT id::text AS id FROM holds WHERE app_id IS NULL").first)
        }

        private static let rows: [PostgresQuery] = [
            "INSERT INTO channel_scopes (app_id, environment) SELECT id, unnest(ARRAY['production', 'sandbox']) FROM apps",
            """
            INSERT INTO channels (app_id, environment, name, apple_id, storage, state, created_at, changed_at)
            SELECT app_id, environment, name, apple_id, 'none', state, now(), now()
            FROM channel_scopes, (
                VALUES ('game', 'AAAA', 'open'), ('going', 'BBBB', 'deleting'), ('gone', 'CCCC', 'lost')) AS c (name, apple_id, state)
            WHERE environment = 'production'
            """,
            """
            INSERT INTO channels (app_id, environment, apple_id, state, created_at, changed_at)
            SELECT app_id, environment, lpad(n::text, 8, '0'), 'foreign', now(), now()
            FROM channel_scopes, generate_series(1, 10000) AS n WHERE environment = 'sandbox'
            """,
            """
            INSERT INTO activities (app_id, owner, id, attributes_type, channel, started_at)
            SELECT app_id, 'ada', 'ride', 'Ride', id, now() FROM channels WHERE name = 'game'
            """,
            "UPDATE installations SET lines_count_until = now() + interval '80 minutes' WHERE owner = 'grace'",
            """
            INSERT INTO holds (id, app_id, lane, reason, set_at, set_by, published_at)
            SELECT new_id(), a.id, 'bulk', 'r', now(), 'k', now() FROM apps a, generate_series(1, 100)
            UNION ALL SELECT new_id(), NULL, 'bulk', 'r', now(), 'k', now()
            """,
            """
            INSERT INTO webhooks (id, app_id, url, events, secret, disabled_reason, disabled_at)
            SELECT new_id(), a.id, 'https://hooks.example.com/', '{*}', sha256('s'), 'by_request', now()
            FROM apps a, generate_series(1, 20)
            """,
            // Any change of a webhook would put this right.
            "UPDATE apps SET reports_notifications = true",
        ]

        func refusals() -> [Refusal] {
            let unknown = PushID.random().description
            return ofDevices(unknown) + ofNotifications(unknown) + ofChannels() + ofOperators(unknown)
        }

        private func ofDevices(_ unknown: String) -> [Refusal] {
            let (apps, first) = ("/v1/apps/shop", "/v1/apps/shop/installations/\(installation(1))")
            let (second, nowhere) = ("/v1/apps/shop/installations/\(installation(2))", "/v1/apps/shop/installations/\(unknown)")
            let other = ["if-match": #""other""#]
            let named = #"{"token":"\#(token(1))","expected_user":"eve"}"#
            return [
                Refusal(409, "owner_mismatch", "PUT", first, #"{"user":"eve","expected_user":"eve","tokens":[{"token":"\#(token(3))"}]}"#),
                Refusal(409, "owner_mismatch", "PATCH", first, #"{"user":null,"expected_user":"eve"}"#),
                Refusal(409, "owner_mismatch", "POST", first + "/logout", #"{"expected_user":"eve"}"#),
                Refusal(409, "owner_mismatch", "DELETE", first + "?expected_user=eve"),
                Refusal(409, "owner_mismatch", "POST", apps + "/tokens/logout", named),
                Refusal(409, "owner_mismatch", "POST", apps + "/tokens/deregister", named),
                Refusal(409, "owner_mismatch", "PUT", first + "/activities/walk", named),
                Refusal(412, "precondition_failed", "PUT", first, #"{"user":"eve","tokens":[{"token":"\#(token(3))"}]}"#, headers: other),
                Refusal(412, "precondition_failed", "PATCH", first, #"{"user":null}"#, headers: other),
                Refusal(412, "precondition_failed", "PUT", first + "/tags", #"{"tags":["vip"]}"#, headers: other),
                Refusal(429, "too_many_changes", "PUT", second, #"{"user":"eve","tokens":[{"token":"\#(token(3))"}]}"#),
                Refusal(404, "not_found", "PATCH", nowhere, #"{"user":null}"#),
                Refusal(404, "not_found", "PUT", nowhere + "/tags", #"{"tags":["vip"]}"#),
                Refusal(404, "not_found", "PUT", nowhere + "/activities/walk", #"{"token":"\#(token(4))"}"#),
                Refusal(400, "invalid_request", "PUT", first + "/activities/walk", #"{"token":"\#(token(4))","channel":"gone"}"#),
                Refusal(
                    409, "device_credentials_off", "POST", apps + "/device-credentials",
                    #"{"installation":"\#(installation(1))","user":"ada"}"#),
            ]
        }

        private func ofNotifications(_ unknown: String) -> [Refusal] {
            let path = "/v1/apps/shop/notifications"
            let key = ["idempotency-key": "new"]
            return [
                Refusal(404, "not_found", "DELETE", "\(path)/\(unknown)"),
                Refusal(
                    422, "idempotency_key_reused", "POST", path, #"{"to":{"user":"ada"},"payload":{"aps":{"alert":"other"}}}"#,
                    headers: ["idempotency-key": "used"]),
                Refusal(409, "activity_exists", "POST", path, ActivityLineTests.start("ride"), headers: key),
                Refusal(
                    409, "activity_not_single", "POST", path,
                    #"{"to":{"user":"ada","activity_type":"Match"},"content":{"event":"update","content_state":{}}}"#, headers: key),
            ]
        }

        private func ofChannels() -> [Refusal] {
            let path = "/v1/apps/shop/channels"
            let broadcast = #"{"content":{"event":"update","content_state":{}}}"#
            let (production, sandbox) = (#"{"environment":"production","storage":"none"}"#, #"{"environment":"sandbox","storage":"none"}"#)
            return [
                Refusal(409, "channel_differs", "PUT", path + "/game", #"{"environment":"production","storage":"latest"}"#),
                Refusal(409, "channel_deleting", "PUT", path + "/going", production),
                Refusal(409, "channel_lost", "PUT", path + "/gone", production),
                Refusal(409, "channel_limit", "PUT", path + "/one-more", sandbox),
                Refusal(409, "channel_in_use", "DELETE", path + "/game"),
                Refusal(409, "channel_not_open", "POST", path + "/gone/broadcasts", broadcast),
                Refusal(404, "not_found", "POST", path + "/nothing/broadcasts", broadcast),
                Refusal(404, "not_found", "DELETE", path + "?environment=production&channel_id=ZZZZ"),
            ]
        }

        private func ofOperators(_ unknown: String) -> [Refusal] {
            let (webhooks, holds, keys) = ("/v1/apps/shop/webhooks", "/v1/apps/shop/holds", "/v1/admin/keys")
            return [
                Refusal(404, "not_found", "PATCH", "\(webhooks)/\(unknown)", #"{"enabled":true}"#),
                Refusal(404, "not_found", "DELETE", "\(webhooks)/\(unknown)"),
                Refusal(404, "not_found", "POST", "\(webhooks)/\(unknown)/rotate"),
                Refusal(404, "not_found", "POST", "\(webhooks)/\(unknown)/ping"),
                Refusal(404, "not_found", "POST", "\(webhooks)/\(unknown)/redeliver", #"{"failed":true}"#),
                Refusal(409, "webhook_disabled", "POST", "\(webhooks)/\(webhook)/ping"),
                Refusal(409, "too_many_webhooks", "POST", webhooks, #"{"url":"https://hooks.example.com/","events":["*"]}"#),
                Refusal(404, "not_found", "DELETE", "\(holds)/\(unknown)"),
                Refusal(404, "not_found", "DELETE", "\(holds)/\(globalHold)"),
                Refusal(404, "not_found", "DELETE", "/v1/admin/holds/\(unknown)"),
                Refusal(400, "invalid_request", "POST", holds, #"{"notification":"\#(unknown)","reason":"r"}"#),
                Refusal(409, "too_many_holds", "POST", holds, #"{"lane":"bulk","reason":"r"}"#),
                Refusal(
                    409, "app_differs", "POST", "/v1/admin/apps",
                    #"{"slug":"shop","bundle_id":"com.example.other","device_policy":"multi","environments":["production","sandbox"]}"#),
                Refusal(
                    409, "environment_in_use", "PATCH", "/v1/admin/apps/shop",
                    #"{"environments":["sandbox"],"bundle_id":"com.example.other"}"#),
                Refusal(404, "not_found", "PATCH", "/v1/admin/apps/nothing", #"{"bundle_id":"com.example.other"}"#),
                Refusal(409, "key_already_rotated", "POST", "\(keys)/\(rotated)/rotate"),
                Refusal(409, "key_not_live", "POST", "\(keys)/\(revoked)/rotate"),
                Refusal(404, "not_found", "POST", "\(keys)/0123456789abcdef/rotate"),
                Refusal(404, "not_found", "DELETE", "\(keys)/0123456789abcdef"),
            ]
        }
    }
}
