import HTTPTypes
import Postgres
import PushModel
import StrictJSON
import TestSupport
import Testing
import TokenServiceAPI
import TokenServiceApps
import TokenServiceEvents
import TokenServiceOutcomes
import TokenServiceRegistry
import TokenServiceSending
import TokenServiceUpkeep

@Suite("The audit trail knows who did what", .serialized, .timeLimit(.minutes(5)))
struct AuditTests {
    private static let path = "/v1/admin/audit"

    /// A request to a route that is recorded, and what the trail says of it beside the action.
    private struct Deed: Sendable {
        let path: String
        var body: String?
        var status = 200
        var app: String? = "shop"
        /// Nil: of the answer, its `id`.
        var object: String??
        var count: Int64?

        func entry(_ answer: APITestClient.Answer) -> [String?] {
            [app, object ?? answer.json.text("id"), count.map { "\($0)" }]
        }
    }

    private static func entries(_ client: APITestClient, _ query: String = "") async throws -> [JSONValue] {
        let answer = try await client.get(path + query)
        #expect(answer.status == 200, "\(answer.json)")
        return try #require(answer.json["entries"]?.arrayValue)
    }

    private static func id(_ client: APITestClient) throws -> String { String(try #require(client.key).split(separator: "_")[1]) }

    // MARK: Every route

    @Test("Every route that changes something with the scope admin, or shows tokens in full, says what the trail calls it")
    func declaredActions() {
        for operation in OpenAPIDocument.operations {
            let route = operation.route
            let isOpenWithTokens = operation.parameters.contains { $0.name == "tokens" }
            let isPersonal = [.exportInstallations, .exportUser].contains(route)
            let isChange = route.scopes.contains(.admin) && route.method != .get
            #expect((route.audit != nil) == (isChange || isPersonal || isOpenWithTokens), "\(route.method.rawValue) \(route.path)")
        }
        #expect(Set(APIRoute.all.compactMap(\.audit)) == Set(AuditAction.allCases))
    }

    @Test("Every use of such a route leaves one entry: key, app, action and object") func everyRoute() async throws {
        try await RunningService.run { running in
            let brake = try await Brake.engaged(running)
            let chief = try await running.client.makeKey(app: nil, scopes: KeyScope.allCases.map(\.rawValue))
            let id = try Self.id(chief)
            let deeds = try await Self.deeds(running, brake)
            #expect(Set(deeds.map(\.0)) == Set(APIRoute.all.filter { $0.audit != nil }), "teach this test a request for each of them")
            var newest = try await running.count("SELECT max(id) AS count FROM audit")
            for (route, deed) in deeds {
                let answer = try await chief.call(route.method.rawValue, deed.path, deed.body)
                let name = "\(route.method.rawValue) \(route.path)"
                #expect(answer.status == deed.status, "\(name): \(String(decoding: answer.bytes, as: UTF8.self))")
                let found = try await running.pool.session { [newest] session in
                    try session.execute("SELECT * FROM audit_entries WHERE id > \(newest) ORDER BY id").map { row in
                        let count: Int64? = try row["count"]
                        return [
                            try row["action"], try row["key_id"], try row["key_name"], try row["app"], try row["object"],
                            count.map { "\($0)" },
                        ] as [String?]
                    }
                }
                #expect(found == [[route.audit?.rawValue, id, "test"] + deed.entry(answer)], "\(name)")
                newest = try await running.count("SELECT max(id) AS count FROM audit")
            }
            // Once more: what changes nothing leaves nothing.
            let repeatable: [APIRoute] = [
                .createApp, .changeApp, .revokeKey, .liftHold, .liftAnyHold, .replayDeadLetters, .dropDeadLetters, .restoreQuarantine,
                .eraseUser,
            ]
            for (route, deed) in deeds where repeatable.contains(route) {
                _ = try await chief.call(route.method.rawValue, deed.path, deed.body)
            }
            #expect(try await running.count("SELECT max(id) AS count FROM audit") == newest)
        }
    }

    /// In an order in which each finds what it needs.
    private static func deeds(_ running: RunningService, _ brake: Brake) async throws -> [(APIRoute, Deed)] {
        let (admin, shop) = (running.client, "/v1/apps/shop")
        let (old, over) = (try await admin.makeKey(app: "shop", scopes: ["read"]), try await admin.makeKey(app: nil, scopes: ["read"]))
        let made = try await admin.post("\(shop)/webhooks", #"{"url":"https://hooks.example.com/","events":["delivery.failed"]}"#)
        let webhook = try #require(made.json.text("id"))
        try await running.execute(
            """
            INSERT INTO webhook_messages (webhook, id, topic, body, state, created_at, due_at, settled_at)
            SELECT id, gen_random_uuid(), 'delivery.failed', '{}', 'failed', now(), now(), now() FROM webhooks
            """)
        let hold = try await admin.setHold(#"{"lane":"bulk","reason":"r"}"#)
        let everyHold = try await admin.setHold(#"{"lane":"bulk","reason":"r"}"#, at: "/v1/admin/holds")
        for _ in 1...2 { try await DeadLetterTests.giveUp(brake.job, running, outcome: nil) }
        let letters = (try await DeadLetterTests.list(running)["letters"]?.arrayValue ?? []).compactMap { $0.text("id") }
        try #require(letters.count == 2)
        let hooks = "\(shop)/webhooks/\(webhook)"
        let ada = AuditEntry.object(user: "ada", of: try #require(AppSlug("shop")))
        let first = "\(shop)/installations/\(installation(21))"
        let app = #"{"slug":"cafe","bundle_id":"com.example.cafe","device_policy":"multi","environments":["production"]}"#
        return [
            (.createApp, Deed(path: "/v1/admin/apps", body: app, status: 201, app: "cafe", object: "cafe")),
            (.changeApp, Deed(path: "/v1/admin/apps/cafe", body: #"{"stale_after_days":9}"#, app: "cafe", object: "cafe")),
            (.createKey, Deed(path: "/v1/admin/keys", body: #"{"app":"shop","name":"n","scopes":["read"]}"#, status: 201)),
            (.rotateKey, Deed(path: "/v1/admin/keys/\(try id(old))/rotate", status: 201, object: try id(old))),
            (.revokeKey, Deed(path: "/v1/admin/keys/\(try id(over))", status: 204, app: nil, object: try id(over))),
            (.setHold, Deed(path: APITestClient.holds, body: #"{"all":true,"reason":"r","ttl_seconds":1}"#, status: 201)),
            (.liftHold, Deed(path: "\(APITestClient.holds)/\(hold)")),
            (.setGlobalHold, Deed(path: "/v1/admin/holds", body: #"{"lane":"bulk","reason":"r"}"#, status: 201, app: nil)),
            (.liftAnyHold, Deed(path: "/v1/admin/holds/\(everyHold)", app: nil)),
            (
                .createWebhook,
                Deed(path: "\(shop)/webhooks", body: #"{"url":"https://hooks.example.com/","events":["delivery.failed"]}"#, status: 201)
            ),
            (.pingWebhook, Deed(path: "\(hooks)/ping", status: 202, object: webhook)),
            (.redeliverWebhookMessages, Deed(path: "\(hooks)/redeliver", body: #"{"failed":true}"#, object: webhook, count: 1)),
            (.rotateWebhook, Deed(path: "\(hooks)/rotate")),
            (.changeWebhook, Deed(path: hooks, body: #"{"enabled":false}"#)),
            (.deleteWebhook, Deed(path: hooks, status: 204, object: webhook)),
            (
                .replayDeadLetters,
                Deed(path: DeadLetterTests.path + "/replay", body: #"{"ids":["\#(letters[0])"]}"#, object: letters[0], count: 1)
            ),
            (.dropDeadLetters, Deed(path: DeadLetterTests.path + "/drop", body: #"{"all":true}"#, object: letters[1], count: 1)),
            (.readInstallation, Deed(path: first + "?tokens=full", object: installation(21).description)),
            (.listInstallations, Deed(path: "\(shop)/installations?tokens=full", object: .some(nil))),
            (.listUserInstallations, Deed(path: "\(shop)/users/ada/installations?tokens=full", object: ada)),
            (
                .searchToken,
                Deed(
                    path: "\(shop)/tokens/search?tokens=full", body: #"{"token":"\#(token(21))"}"#,
                    object: DeviceToken(hex: token(21))?.hint)
            ),
            (
                .listDeliveries,
                Deed(
                    path: "\(shop)/notifications/\(brake.job.notification)/deliveries?tokens=full",
                    object: brake.job.notification.description)
            ),
            (.exportInstallations, Deed(path: "\(shop)/export", object: .some(nil))),
            (.exportUser, Deed(path: "\(shop)/users/ada/export", object: ada)),
            (.restoreQuarantine, Deed(path: "\(shop)/quarantine/restore", object: .some(nil), count: 20)),
            (.eraseUser, Deed(path: "\(shop)/users/ada/erase", body: #"{"confirm":"ada"}"#, object: ada)),
        ]
    }

    @Test("Hints of tokens, refused requests and what does not exist leave no entry") func unrecorded() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            try await shop.register(installation(1), user: "ada", token: token(1))
            let own = try await running.client.makeKey(app: "shop", scopes: ["admin"])
            let before = try await running.count("SELECT count(*) FROM audit")
            let path = "/v1/apps/shop/installations"
            #expect(try await shop.get("\(path)/\(installation(1))").status == 200)
            #expect(try await shop.get("\(path)?tokens=hints").status == 200)
            #expect(try await shop.get("\(path)/\(installation(9))?tokens=full").status == 404)
            #expect(try await own.post("/v1/admin/keys", #"{"name":"n","scopes":["read"]}"#).status == 403)
            #expect(try await own.delete("/v1/apps/shop/webhooks/\(installation(1))").status == 404)
            #expect(try await running.client.post("/v1/admin/keys", #"{"name":"n","scopes":[]}"#).status == 400)
            #expect(try await running.client.delete("/v1/admin/keys/0123456789abcdef").status == 404)
            #expect(try await own.post(Erased.path, #"{"confirm":"grace"}"#).status == 400)
            #expect(try await running.count("SELECT count(*) FROM audit") == before)
        }
    }

    @Test("What changes nothing leaves no entry") func unchanged() async throws {
        try await RunningService.run { running in
            let (shop, admin) = (try await running.client.makeApp(), running.client)
            try await shop.register(installation(1), user: "ada", token: token(1))
            let hooks = "/v1/apps/shop/webhooks"
            let made = try await admin.post(hooks, #"{"url":"https://hooks.example.com/","events":["delivery.failed"],"description":"d"}"#)
            let webhook = try #require(made.json.text("id"))
            // Its delivery has no outcome yet.
            let job = try await running.sendAndTake(#"{"user":"ada"}"#, with: shop)
            try await DeadLetterTests.giveUp(job, running, outcome: nil)
            let before = try await running.count("SELECT count(*) FROM audit")
            for body in ["{}", #"{"device_policy":"multi","environments":["production","sandbox"]}"#] {
                #expect(try await admin.call("PATCH", "/v1/admin/apps/shop", body).status == 200, "\(body)")
            }
            for body in ["{}", #"{"enabled":true,"description":"d"}"#] {
                let answer = try await admin.call("PATCH", "\(hooks)/\(webhook)", body)
                #expect(answer.status == 200 && answer.json["enabled"]?.boolValue == true, "\(body)")
            }
            let erased = try await admin.post("/v1/apps/shop/users/grace/erase", #"{"confirm":"grace"}"#)
            #expect(erased.status == 200 && erased.json["user_erased"]?.boolValue == false)
            let replayed = try await admin.post(DeadLetterTests.path + "/replay", #"{"all":true}"#)
            #expect(replayed.status == 200 && replayed.json.number("kept") == 1, "\(replayed.json)")
            #expect(try await running.count("SELECT count(*) FROM audit") == before)
            // What changes something has its entry.
            #expect(try await admin.call("PATCH", "\(hooks)/\(webhook)", #"{"description":null}"#).status == 200)
            #expect(try await running.count("SELECT count(*) FROM audit") == before + 1)
        }
    }

    private enum Erased { static let path = "/v1/apps/shop/users/ada/erase" }

    @Test("Where no entry can be written, nothing is changed and nothing is shown") func together() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            try await shop.register(installation(1), user: "ada", token: token(1))
            try await running.execute("ALTER TABLE audit ADD CONSTRAINT closed CHECK (false) NOT VALID")
            let keys = try await running.count("SELECT count(*) FROM api_keys")
            #expect(try await running.client.post("/v1/admin/keys", #"{"name":"n","scopes":["read"]}"#).status == 500)
            #expect(try await running.client.post(Erased.path, #"{"confirm":"ada"}"#).status == 500)
            let full = try await shop.get("/v1/apps/shop/installations/\(installation(1))?tokens=full")
            #expect(full.status == 500 && !String(decoding: full.bytes, as: UTF8.self).contains(token(1)))
            #expect(try await shop.export().status == 500)
            #expect(try await running.count("SELECT count(*) FROM api_keys") == keys)
            #expect(try await shop.record(installation(1)).text("user") == "ada")
        }
    }

    // MARK: What it holds

    @Test("The key that a setting names has an entry without a key, once") func bootstrap() async throws {
        try await RunningService.run { running in
            let id = try Self.id(running.client)
            @Sendable func found() async throws -> [JSONValue] {
                try await Self.entries(running.client).filter { $0.text("object") == id }
            }
            let entry = try #require(try await found().first)
            #expect(entry.text("action") == "key.created" && entry["key"] == nil && entry["app"] == nil)
            try await running.another { _ in
                let entries = try await found()
                #expect(entries.count == 1)
            }
        }
    }

    @Test("A key says which keys made and revoked it") func madeAndRevoked() async throws {
        try await RunningService.run { running in
            _ = try await running.client.makeApp()
            let chief = try await running.client.makeKey(app: nil, scopes: ["admin"])
            let (bootstrap, first) = (try Self.id(running.client), try Self.id(chief))
            let second = try #require(try await chief.post("/v1/admin/keys/\(first)/rotate").json.text("id"))
            #expect(try await running.client.delete("/v1/admin/keys/\(second)").status == 204)
            let keys = try await running.client.get("/v1/admin/keys").json["keys"]?.arrayValue ?? []
            let made = keys.reduce(into: [:]) { $0[$1.text("id") ?? ""] = [$1.text("created_by"), $1.text("revoked_by")] }
            #expect(made[bootstrap] == [nil, nil] && made[first] == [bootstrap, nil] && made[second] == [first, bootstrap])
        }
    }

    @Test("No entry names a user, and a digest still says whether it was this one") func noNames() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            try await shop.register(installation(1), user: "zoe@example.com", token: token(1))
            #expect(try await shop.get("/v1/apps/shop/users/zoe@example.com/installations?tokens=full").status == 200)
            #expect(try await running.client.post("/v1/apps/shop/users/zoe@example.com/export").status == 200)
            #expect(
                try await running.client.post("/v1/apps/shop/users/zoe@example.com/erase", #"{"confirm":"zoe@example.com"}"#).status
                    == 200)
            // z and o are no digits of an id.
            #expect(try await running.count("SELECT count(*) FROM audit a WHERE position('zoe' in a::text) > 0") == 0)
            #expect(
                try await running.count(
                    "SELECT count(*) FROM audit WHERE object = left(encode(sha256('shop/zoe@example.com'), 'hex'), 16)") == 3)
        }
    }

    // MARK: Reading

    @Test("Filters narrow the list together, and pages end") func pages() async throws {
        try await RunningService.run { running in
            _ = try await running.client.makeApp()
            // More than one page may read, by two keys in two apps; one in a thousand is a revocation.
            try await running.execute(
                """
                INSERT INTO audit (at, action, key_id, app, object)
                SELECT now() - interval '1 hour', CASE n % 1000 WHEN 0 THEN 'key.revoked' ELSE 'tokens.read' END,
                    CASE n % 2 WHEN 0 THEN '00000000000000aa' ELSE '00000000000000bb' END, CASE n % 4 WHEN 0 THEN 'cafe'
                        ELSE 'bar' END, n::text
                FROM generate_series(1, 12000) AS n
                """)
            func all(_ query: String) async throws -> (objects: [String], pages: Int) {
                var (objects, pages, cursor): ([String], Int, String?) = ([], 0, nil)
                repeat {
                    let answer = try await running.client.get("\(Self.path)?limit=1000\(query)\(cursor.map { "&cursor=\($0)" } ?? "")")
                    #expect(answer.status == 200)
                    objects += answer.json["entries"]?.arrayValue?.compactMap { $0.text("object") } ?? []
                    cursor = answer.json.text("next_cursor")
                    pages += 1
                } while cursor != nil
                return (objects, pages)
            }
            #expect(try await all("&app=cafe").objects == stride(from: 12_000, through: 4, by: -4).map { "\($0)" })
            #expect(try await all("&action=key.revoked").objects == stride(from: 12_000, through: 1000, by: -1000).map { "\($0)" })
            #expect(try await all("&key=00000000000000bb&action=key.revoked").objects == [])
            let both = try await all("&key=00000000000000aa&action=key.revoked&app=cafe")
            #expect(both.objects == stride(from: 12_000, through: 1000, by: -1000).map { "\($0)" } && both.pages > 1)
            let recent = UnixClock.now() - 60_000
            #expect(try await all("&key=00000000000000aa&since=\(RFC3339.text(milliseconds: recent))").objects == [])
            #expect(try await all("&since=\(RFC3339.text(milliseconds: recent))").objects.count == 3)
            let cursor = try #require(try await running.client.get("\(Self.path)?app=cafe").json.text("next_cursor"))
            for (query, code) in [
                ("?app=bar&cursor=\(cursor)", "cursor_of_another_list"), ("?cursor=x", "invalid_cursor"), ("?limit=0", "out_of_range"),
                ("?action=key.made", "unsupported_value"), ("?since=today", "invalid_time"), ("?app=Shop", "unsupported_value"),
            ] {
                let refused = try await running.client.get(Self.path + query)
                #expect(refused.status == 400 && refused.code == code, "\(query): \(refused.json)")
            }
        }
    }
}
