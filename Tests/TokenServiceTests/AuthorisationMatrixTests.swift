import HTTPTypes
import Postgres
import PushModel
import StrictJSON
import Testing
import TokenService

/// Every route of the table × everyone who may not use it × what exists and what does not. A new route is tested by being in the table.
@Suite("Who may not do what, and learns nothing by trying (DESIGN.md section 10)", .serialized, .timeLimit(.minutes(2)))
struct AuthorisationMatrixTests {
    /// Somebody who must be refused, and how.
    private struct Stranger {
        let name: String
        let client: APITestClient
        var headers: [String: String] = [:]
        let status: Int
        let code: String
    }

    /// What a placeholder of a path may stand for: the first exists, the second does not.
    private struct World {
        let notification: String
        let key: String

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
            let ids =
                if route.path.contains("/admin/keys/") {
                    [key, "0123456789abcdef"]
                } else if route.path.contains("/notifications/") {
                    [notification, PushID.random().description]
                } else {
                    [installation(1).description, installation(99).description, "x"]
                }
            return [("{app}", ["shop", "nothing"]), ("{slug}", ["shop", "nothing"]), ("{user}", ["ada", "nobody"]), ("{id}", ids)]
        }
    }

    @Test func everyRouteRefusesEveryStrangerAlikeWhateverExists() async throws {
        try await RunningService.run { running in
            let world = try await Self.world(running)
            let strangers = try await Strangers(running)
            let before = try await Self.fingerprint(running)
            for route in APIRoute.all {
                let name = "\(route.method.rawValue) \(route.path)"
                let paths = world.paths(of: route)
                #expect(!paths.contains { $0.contains("{") }, "teach this test what stands for the placeholder in \(name)")
                for stranger in strangers.of(route) {
                    var answers: Set<[String]> = []
                    for path in paths { answers.insert(try await Self.answer(to: stranger, route, path)) }
                    #expect(answers.count == 1, "\(name) tells \(stranger.name) what exists")
                    #expect(
                        answers.first.map { Array($0.prefix(2)) } == ["\(stranger.status)", stranger.code], "\(name) for \(stranger.name)")
                }
            }
            #expect(try await Self.fingerprint(running) == before, "a refused request changed something")
        }
    }

    @Test func anAppsOwnAdministratorUsesItsRoutesAndNoOthers() async throws {
        try await RunningService.run { running in
            let world = try await Self.world(running)
            let own = try await running.client.makeKey(app: "shop", scopes: ["admin"])
            for route in APIRoute.all where route.scopes.contains(.admin) {
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

    /// Status, code, body and headers: everything a stranger could tell two answers apart by.
    private static func answer(to stranger: Stranger, _ route: APIRoute, _ path: String) async throws -> [String] {
        // Nobody reads the body of a request that is not let in.
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
        return World(notification: try #require(sent.json.text("id")), key: String(key))
    }

    /// What refused requests must leave as it is.
    private static func fingerprint(_ running: RunningService) async throws -> [Int64] {
        [
            try await running.count("SELECT count(*) FROM api_keys WHERE revoked_at IS NULL AND expires_at IS NULL"),
            try await running.count("SELECT count(*) FROM apps WHERE updated_at = created_at"),
            try await running.count("SELECT count(*) FROM installations WHERE owner = 'ada'"),
            try await running.count("SELECT count(*) FROM tokens WHERE state = 'active'"),
            try await running.count("SELECT count(*) FROM notifications"),
            try await running.count("SELECT count(*) FROM holds"),
        ]
    }

    private struct Strangers {
        private var unauthenticated: [Stranger] = []
        /// By the only scope of the key: for every app, and bound to the shop.
        private var scoped: [(scope: Scope, everywhere: APITestClient, ofShop: APITestClient, ofOther: APITestClient)] = []

        init(_ running: RunningService) async throws {
            let admin = running.client
            let real = try await admin.makeKey(app: "shop", scopes: ["read"])
            let text = try #require(real.key)
            let revoked = try await admin.makeKey(app: nil, scopes: Scope.allCases.map(\.rawValue))
            let id = try #require(revoked.key).split(separator: "_")[1]
            #expect(try await admin.delete("/v1/admin/keys/\(id)").status == 204)
            let expired = try await admin.post(
                "/v1/admin/keys",
                #"{"app":null,"name":"old","scopes":["devices","send","read","admin"],"expires_at":"2020-01-01T00:00:00Z"}"#)
            let bad: [(String, String?)] = [
                ("nobody", nil), ("a malformed key", "psh_x"), ("an unknown key", APIKeyText.generate().text),
                ("a wrong secret", String(text.dropLast(48)) + String(repeating: "0", count: 48)), ("a shouted key", text.uppercased()),
                ("a revoked key", revoked.key), ("an expired key", expired.json.text("key")),
            ]
            unauthenticated = bad.map { Stranger(name: $0, client: admin.with(key: $1), status: 401, code: "unauthenticated") }
            unauthenticated.append(
                Stranger(
                    name: "another scheme", client: admin.with(key: nil), headers: ["authorization": "Basic \(text)"], status: 401,
                    code: "unauthenticated"))
            for scope in Scope.allCases {
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
                    return [Stranger(name: "another app's \(key.scope)", client: key.ofOther, status: 404, code: "not_found")]
                }
        }
    }
}
