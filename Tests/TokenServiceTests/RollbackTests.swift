import Broker
import HTTPTypes
import Postgres
import PushModel
import StrictJSON
import TestSupport
import Testing
import TokenServiceApps
import TokenServiceKit

/// A refusal is thrown within its transaction, which then rolls back. Where several requests or items share a transaction, a refused one
/// has written nothing. Here each caller may use the route, and what it names is its own.
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
                // A refused sign-out ends the unused device credentials of the user whom it names.
                let isSignOut = refusal.method == "DELETE" || ["/logout", "/deregister"].contains { refusal.path.hasSuffix($0) }
                let changed = try await running.changed(since: before).filter {
                    $0 != "sign_outs" || refusal.code != "owner_mismatch" || !isSignOut
                }
                #expect(changed.isEmpty, "\(name), refused with \(refusal.code), changed rows of \(changed)")
            }
            let stated = ProblemCode.allCases.filter { [404, 409, 412, 422].contains($0.kind.status.code) }.map(\.rawValue)
            #expect(Set(stated).subtracting(refusals.map(\.code)) == Set(Self.elsewhere.keys))
        }
    }

    @Test("A refused item of a list leaves nothing in any table, and the good ones beside it are written") func inCompany() async throws {
        try await RunningService.run { running in
            let world = try await World(running)
            // The service learns within seconds that the app's changes are reported.
            _ = try await eventually {
                _ = try await world.shop.send(#"{"user":"nobody"}"#)
                return try await running.count("SELECT count(*) FROM notification_events") > 0 ? true : nil
            }
            for list in world.lists() {
                let start = try await running.sizes()
                let taken = try await list.send(list.good(1))
                #expect(taken.allSatisfy { $0 == nil }, "\(list.name): \(taken)")
                try await Self.expanded(running)
                let alone = try await running.growth(since: start)
                #expect(!alone.isEmpty)
                let (between, before) = (try await running.sizes(), try await running.fingerprint(naming: list.named))
                // Refused ones before, between and behind the good ones.
                var items = list.refused.map { (code: Optional($0.code), text: $0.item) }
                for (index, good) in list.good(2).enumerated() { items.insert((nil, good), at: 2 * index + 1) }
                #expect(try await list.send(items.map(\.text)) == items.map(\.code), "\(list.name)")
                try await Self.expanded(running)
                let beside = try await running.growth(since: between)
                #expect(beside == alone, "\(list.name)")
                let changed = try await running.changed(since: before, naming: list.named)
                #expect(changed.isEmpty, "\(list.name): refused items changed rows of \(changed)")
            }
        }
    }

    /// The relay makes the jobs of fan-outs a moment later.
    private static func expanded(_ running: RunningService) async throws {
        _ = try await eventually { try await running.count("SELECT count(*) FROM fan_outs WHERE free_from IS NOT NULL") == 0 ? true : nil }
    }

    @Test("A dead letter that a replay keeps changes no row, and the one beside it is sent") func keptLetter() async throws {
        try await RunningService.run { running in
            let (shop, kept) = try await DeadLetterTests.job(running)
            let good = try await running.sendAndTake(#"{"user":"ada"}"#, with: shop)
            for job in [kept, good] { try await DeadLetterTests.giveUp(job, running) }
            try await running.execute("UPDATE notifications SET expires_at = now() - interval '1 minute' WHERE id = \(kept.notification)")
            try await running.allPublished()
            let named = kept.notification.description
            let (sizes, before) = (try await running.sizes(), try await running.fingerprint(naming: named))
            let again = try await running.jobs { signal in
                let result = try await DeadLetterTests.replay(running)
                #expect(result["deliveries"]?.number("sent") == 1 && result["deliveries"]?.number("expired") == 1)
                #expect(result.number("letters") == 1 && result.number("kept") == 1)
                return try PushJob(decoding: try await signal.next().body)
            }
            #expect(again.notification == good.notification)
            #expect(try await running.changed(since: before, naming: named).isEmpty)
            #expect(try await running.growth(since: sizes) == ["audit": 1])
        }
    }

    /// A request with items that are accepted or refused each by itself.
    private struct List: Sendable {
        let name: String
        /// At least two items, other ones in each turn.
        let good: @Sendable (_ turn: Int) -> [String]
        let refused: [(code: String, item: String)]
        /// A regular expression for what the refused items name and the good ones do not.
        let named: String
        /// Returns the code of each item; nil if it was accepted.
        let send: @Sendable ([String]) async throws -> [String?]
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
            shop = try await running.client.makeKey(app: "shop", scopes: KeyScope.allCases.map(\.rawValue))
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
            "INSERT INTO update_targets (app_id, id) SELECT app_id, name FROM channels",
            """
            INSERT INTO channels (app_id, environment, apple_id, state, created_at, changed_at)
            SELECT app_id, environment, lpad(n::text, 8, '0'), 'foreign', now(), now()
            FROM channel_scopes, generate_series(1, 10000) AS n WHERE environment = 'sandbox'
            """,
            """
            INSERT INTO activities (app_id, owner, id, attributes_type, channel, started_at)
            SELECT app_id, 'ada', 'ride', 'Ride', ordinal, now() FROM update_targets WHERE id = 'game'
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
            "UPDATE apps SET webhooks_want_notifications = true",
        ]

        func lists() -> [List] {
            [
                ofInstallations("a bulk registration", from: 100) { items in
                    let body = #"{"installations":[\#(items.joined(separator: ","))]}"#
                    let answer = try await shop.post("/v1/apps/shop/installations", body)
                    return (answer.json["results"]?.arrayValue ?? []).map { $0["error"]?.text("code") }
                },
                ofInstallations("an import", from: 200) { items in
                    var codes = [String?](repeating: nil, count: items.count)
                    for line in try await shop.importLines(items).lines {
                        if let number = line.number("line") { codes[Int(number) - 1] = line["error"]?.text("code") }
                    }
                    return codes
                },
                List(
                    name: "a batch of notifications",
                    good: { turn in
                        let user = #"{"to":{"user":"ada"},"payload":{"aps":{"alert":"hello"}},"supersede_key":"s\#(turn)"}"#
                        return [
                            Self.item(user, key: "user-\(turn)"), Self.item(ActivityLineTests.start("walk-\(turn)"), key: "walk-\(turn)"),
                        ]
                    },
                    refused: [
                        (
                            "idempotency_key_reused",
                            Self.item(
                                #"{"to":{"user":"ada"},"payload":{"aps":{"alert":"other"}},"supersede_key":"s1"}"#, key: "used")
                        ),
                        ("activity_exists", Self.item(ActivityLineTests.start("ride"), key: "refused-1")),
                        (
                            "activity_not_single",
                            Self.item(
                                #"{"to":{"user":"ada","activity_type":"Match"},"content":{"event":"update","content_state":{}}}"#,
                                key: "refused-2")
                        ),
                        ("invalid_request", Self.item(#"{"to":{"user":"ada"},"content":{"badge":-1}}"#, key: "refused-3")),
                    ],
                    named: #""used"|"refused-|"ride"|Match"#,
                    send: { items in
                        let body = #"{"notifications":[\#(items.joined(separator: ","))]}"#
                        let answer = try await shop.post("/v1/apps/shop/notifications/batch", body)
                        return (answer.json["results"]?.arrayValue ?? []).map { $0.text("code") }
                    }),
            ]
        }

        private static func item(_ notification: String, key: String) -> String {
            #"{"notification":\#(notification),"idempotency_key":"\#(key)"}"#
        }

        /// - Parameter first: No other list registers the numbers from there on.
        private func ofInstallations(
            _ name: String, from first: Int, send: @escaping @Sendable ([String]) async throws -> [String?]
        ) -> List {
            let ids = [1, 2, first + 3, first + 4].map { installation($0).description }
            let tokens = (first + 1...first + 4).map { token($0) }
            return List(
                name: name,
                good: { turn in [importLine(first + 10 * turn, user: "bob"), importLine(first + 10 * turn + 1, user: nil)] },
                refused: [
                    ("owner_mismatch", importLine(1, user: "eve", token: first + 1, more: #","expected_user":"eve""#)),
                    ("too_many_changes", importLine(2, user: "eve", token: first + 2)),
                    ("owner_mismatch", importLine(first + 3, user: "eve", more: #","expected_user":"nobody""#)),
                    ("invalid_request", importLine(first + 4, user: "eve", more: #","colour":1"#)),
                ],
                named: ([#""eve""#] + ids + tokens).joined(separator: "|"), send: send)
        }

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
