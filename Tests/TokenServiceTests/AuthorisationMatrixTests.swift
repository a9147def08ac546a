import HTTPTypes
import Postgres
import PushModel
import StrictJSON
import Testing
import TokenServiceAPI
import TokenServiceApps
import TokenServiceEvents
import TokenServiceOutcomes
import TokenServiceRegistry
import TokenServiceSending

/// Every route of the table × everyone who may not use it × what exists and what does not. A new route is tested by being in the table.
@Suite("Who may not do what, and learns nothing by trying", .serialized, .timeLimit(.minutes(5)))
struct AuthorisationMatrixTests {
    /// A caller that the service must refuse, and how.
    private struct Stranger: Sendable {
        let name: String
        let client: APITestClient
        var headers: [String: String] = [:]
        let status: Int
        let code: String
    }

    /// What a placeholder of a path may stand for: the first exists, the second does not.
    private struct World {
        let notification: String
        /// One whose job is due later.
        let waiting: String
        let key: String
        let hold: String
        let globalHold: String
        let webhook: String

        func paths(of route: APIRoute) -> [String] {
            var paths = [route.path]
            for (placeholder, values) in placeholders(of: route) {
                paths = paths.flatMap { path in
                    path.contains(placeholder) ? values.map { path.replacing(placeholder, with: $0) } : [path]
                }
            }
            return paths
        }

        private func placeholders(of route: APIRoute) -> [(String, [String])] {
            [
                ("{app}", ["shop", "nothing"]), ("{slug}", ["shop", "nothing"]), ("{user}", ["ada", "nobody"]), ("{activity}", ["ride-1"]),
                ("{channel}", ["game-1", "nothing"]), ("{id}", ids(of: route)),
            ]
        }

        /// Ids of a route's kind that exist, and ids that do not. A new kind must be added here (dead letters have no app: any id will do).
        func ids(of route: APIRoute) -> [String] {
            let unknown = PushID.random().description
            let known: [(String, [String])] = [
                ("/admin/keys/", [key, "0123456789abcdef"]), ("/notifications/", [notification, waiting, unknown]),
                ("/admin/holds/", [globalHold, hold, unknown]), ("/holds/", [hold, unknown]), ("/webhooks/", [webhook, unknown]),
                ("/installations/", [installation(1).description, installation(99).description, "x"]), ("/dead-letters/", [unknown, "x"]),
            ]
            return known.first { route.path.contains($0.0) }?.1 ?? []
        }
    }

    @Test("Every route refuses every stranger in the same way, whatever exists") func sameRefusal() async throws {
        try await RunningService.run { running in
            let world = try await Self.world(running)
            let strangers = try await Strangers(running)
            let before = try await running.fingerprint()
            for route in APIRoute.all {
                let name = "\(route.method.rawValue) \(route.path)"
                let paths = world.paths(of: route)
                #expect(!paths.contains { $0.contains("{") }, "teach this test what stands for the placeholder in \(name)")
                // Side by side: one after another, these thousands of requests would wait for every other test of a busy machine.
                try await withThrowingTaskGroup(of: Void.self) { group in
                    for stranger in strangers.of(route) {
                        group.addTask {
                            var answers: Set<[String]> = []
                            for path in paths { answers.insert(try await Self.answer(to: stranger, route, path)) }
                            #expect(answers.count == 1, "\(name) reveals to \(stranger.name) what exists")
                            #expect(
                                answers.first.map { Array($0.prefix(2)) } == ["\(stranger.status)", stranger.code],
                                "\(name) for \(stranger.name)")
                        }
                    }
                    try await group.waitForAll()
                }
            }
            let changed = try await running.changed(since: before)
            #expect(changed.isEmpty, "a refused request changed rows of \(changed)")
        }
    }

    /// A key that may do everything in one app reaches nothing of another app: it is as if nothing existed there.
    @Test("For a key of one app, the resources of another app do not exist") func otherApp() async throws {
        try await RunningService.run { running in
            let world = try await Self.world(running)
            let other = try await running.client.makeKey(app: "other", scopes: KeyScope.allCases.map(\.rawValue))
            let before = try await running.fingerprint()
            for route in APIRoute.all where route.isOfApp && route.path.contains("{id}") {
                // To register an id of one's own choice is no look at another app's.
                if route == .register { continue }
                let ids = world.ids(of: route).filter { $0 != "x" }
                var answers: Set<[String]> = []
                for id in ids {
                    let path = route.path.replacing("{app}", with: "other").replacing("{activity}", with: "ride-1").replacing(
                        "{id}", with: id)
                    let query = route == .explainNotification || route == .readLiveActivity ? "?user=ada" : ""
                    let answer = try await other.call(route.method.rawValue, path + query, Self.body(of: route))
                    answers.insert([
                        "\(answer.status)", answer.code ?? "none", String(decoding: answer.bytes, as: UTF8.self).replacing(id, with: ""),
                    ])
                    #expect(!String(decoding: answer.bytes, as: UTF8.self).contains("ada"), "\(route.method.rawValue) \(path)")
                }
                #expect(answers.count == 1, "\(route.method.rawValue) \(route.path) reveals what another app has: \(answers)")
                #expect(answers.first?.first != "400", "teach this test a body for \(route.method.rawValue) \(route.path)")
            }
            // A sign-out of an installation that the key's own app does not know leaves its moment there.
            let changed = try await running.changed(since: before).filter { $0 != "sign_outs" }
            #expect(changed.isEmpty, "another app's key changed rows of \(changed)")
            #expect(try await running.count("SELECT count(*) FROM sign_outs s JOIN apps a ON a.id = s.app_id WHERE a.slug = 'shop'") == 0)
        }
    }

    private static func body(of route: APIRoute) -> String? {
        switch route {
        case .changeWebhook: #"{"enabled":false}"#
        case .redeliverWebhookMessages: #"{"failed":true}"#
        case .change: #"{"user":null}"#
        case .setTags: #"{"tags":[]}"#
        case .reportReceipts: #"{"receipts":[]}"#
        case .reportActivity: #"{"token":"\#(token(7))"}"#
        default: route.method == .get || route.method == .delete ? nil : "{}"
        }
    }

    @Test("An app's own administrator may use the app's routes and no others") func ownAdministrator() async throws {
        try await RunningService.run { running in
            let world = try await Self.world(running)
            let own = try await running.client.makeKey(app: "shop", scopes: ["admin"])
            // Any key may read itself.
            for route in APIRoute.all where route.scopes.contains(.admin) && route != .readKey {
                let path = world.paths(of: route)[0]
                let answer = try await own.call(route.method.rawValue, path, "{")
                if route.isOfApp {
                    #expect(answer.status != 401 && answer.status != 403, "\(route.method.rawValue) \(route.path)")
                } else {
                    #expect(answer.status == 403, "\(route.method.rawValue) \(route.path)")
                }
            }
        }
    }

    /// Status, code, body and headers: everything by which a stranger could distinguish two answers.
    private static func answer(to stranger: Stranger, _ route: APIRoute, _ path: String) async throws -> [String] {
        // The service does not read the body of a request that it does not let in.
        let answer = try await stranger.client.call(
            route.method.rawValue, path, route.method == .get ? nil : "{", headers: stranger.headers)
        let headers = answer.headers.map { ($0.0.lowercased(), $0.1) }.filter { $0.0 != "date" && !$0.0.hasPrefix("ratelimit-") }
        return ["\(answer.status)", answer.code ?? "none", String(decoding: answer.bytes, as: UTF8.self)]
            + headers.map { "\($0.0): \($0.1)" }.sorted()
    }

    private static func world(_ running: RunningService) async throws -> World {
        let shop = try await running.client.makeApp()
        _ = try await running.client.makeApp("other")
        try await shop.register(installation(1), user: "ada", token: token(1))
        let sent = try await shop.send(#"{"user":"ada"}"#)
        let key = try #require(shop.key).split(separator: "_")[1]
        let hold = try await running.client.post("/v1/apps/shop/holds", #"{"lane":"bulk","reason":"test"}"#)
        let globalHold = try await running.client.post("/v1/admin/holds", #"{"lane":"bulk","reason":"test"}"#)
        let webhook = try await running.client.post(
            "/v1/apps/shop/webhooks", #"{"url":"https://hooks.example.com/","events":["delivery.failed"]}"#)
        #expect(try await shop.put("/v1/apps/shop/users/ada/quiet-hours", #"{"begins_at":"22:00","ends_at":"07:00"}"#).status < 300)
        try await shop.register(installation(2), user: "grace", token: token(2))
        for statement: PostgresQuery in [
            """
            INSERT INTO quiet_hours (app_id, owner, begins_at, ends_at, updated_at)
            SELECT id, 'grace', (now() AT TIME ZONE 'UTC' - interval '1 hour')::time, (now() AT TIME ZONE 'UTC' + interval '2 hours')::time,
                now() FROM apps WHERE slug = 'shop'
            """,
            "INSERT INTO channel_scopes (app_id, environment) SELECT id, 'production' FROM apps WHERE slug = 'shop'",
            """
            INSERT INTO channels (app_id, environment, apple_id, state, created_at, changed_at)
            SELECT app_id, environment, 'AAAA', 'foreign', now(), now() FROM channel_scopes
            """,
        ] {
            try await running.execute(statement)
        }
        let waiting = try await shop.send(#"{"user":"grace"}"#)
        // Nothing changes any more by itself.
        _ = try await eventually {
            try await running.count(
                "SELECT count(*) FROM jobs WHERE published_at IS NULL AND due_at > now() AND (SELECT count(*) FROM jobs) = 2") == 1
                ? true : nil
        }
        return World(
            notification: try #require(sent.json.text("id")), waiting: try #require(waiting.json.text("id")), key: String(key),
            hold: try #require(hold.json.text("id")),
            globalHold: try #require(globalHold.json.text("id")), webhook: try #require(webhook.json.text("id")))
    }

    private struct Strangers {
        private var unauthenticated: [Stranger] = []
        /// By the only scope of the key: for every app, and bound to the shop.
        private var scoped: [(scope: KeyScope, everywhere: APITestClient, ofShop: APITestClient, ofOther: APITestClient)] = []

        init(_ running: RunningService) async throws {
            let admin = running.client
            let real = try await admin.makeKey(app: "shop", scopes: ["read"])
            let text = try #require(real.key)
            let revoked = try await admin.makeKey(app: nil, scopes: KeyScope.allCases.map(\.rawValue))
            let id = try #require(revoked.key).split(separator: "_")[1]
            #expect(try await admin.delete("/v1/admin/keys/\(id)").status == 204)
            let expired = try await admin.post(
                "/v1/admin/keys",
                #"{"app":null,"name":"old","scopes":["devices","send","read","admin"],"expires_at":"2020-01-01T00:00:00Z"}"#)
            let bad: [(String, String?)] = [
                ("no key", nil), ("a malformed key", "psh_x"), ("an unknown key", APIKeyText.generate().text),
                ("a wrong secret", String(text.dropLast(48)) + String(repeating: "0", count: 48)), ("a shouted key", text.uppercased()),
                ("a revoked key", revoked.key), ("an expired key", expired.json.text("key")),
            ]
            unauthenticated = bad.map { Stranger(name: $0, client: admin.with(key: $1), status: 401, code: "unauthenticated") }
            unauthenticated.append(
                Stranger(
                    name: "another scheme", client: admin.with(key: nil), headers: ["authorization": "Basic \(text)"], status: 401,
                    code: "unauthenticated"))
            for scope in KeyScope.allCases {
                scoped.append(
                    (
                        scope, try await admin.makeKey(app: nil, scopes: [scope.rawValue]),
                        try await admin.makeKey(app: "shop", scopes: [scope.rawValue]),
                        try await admin.makeKey(app: "other", scopes: [scope.rawValue])
                    ))
            }
        }

        func of(_ route: APIRoute) -> [Stranger] {
            unauthenticated
                + scoped.flatMap { key -> [Stranger] in
                    if !route.scopes.contains(key.scope) {
                        return [
                            Stranger(name: "scope \(key.scope)", client: key.everywhere, status: 403, code: "forbidden"),
                            Stranger(name: "the app's scope \(key.scope)", client: key.ofShop, status: 403, code: "forbidden"),
                            Stranger(name: "another app's scope \(key.scope)", client: key.ofOther, status: 403, code: "forbidden"),
                        ]
                    }
                    if route.isAdministrative {
                        return [Stranger(name: "an app's administrator", client: key.ofShop, status: 403, code: "forbidden")]
                    }
                    // Of no app and for every scope: a key may read itself.
                    guard route.isOfApp else { return [] }
                    return [Stranger(name: "another app's \(key.scope)", client: key.ofOther, status: 404, code: "not_found")]
                }
        }
    }
}
