import Foundation
import Postgres
import StrictJSON
import Testing

@testable import TokenService

@Suite("What the console is made of", .timeLimit(.minutes(5)))
struct ConsoleTests {
    @Test("The first page leads to the console and to the description") func firstPage() async throws {
        try await RunningService.run { running in
            let anyone = running.client.with(key: nil)
            let page = try await anyone.get("/")
            #expect(page.status == 200 && page.header("content-type") == "text/html; charset=utf-8")
            for path in ["/console", "/docs"] {
                #expect(String(decoding: page.bytes, as: UTF8.self).contains("href=\"\(path)\""))
                #expect(try await anyone.get(path).status == 200)
            }
        }
    }

    @Test("Every file that the console names is served, with a policy that allows files of this service alone") func files() async throws {
        try await RunningService.run { running in
            let anyone = running.client.with(key: nil)
            var (left, seen): ([String], Set<String>) = (["/console"], [])
            while let path = left.popLast() {
                guard seen.insert(path).inserted else { continue }
                let file = try await anyone.get(path)
                #expect(file.status == 200, "\(path)")
                let policy = try #require(file.header("content-security-policy"))
                #expect(policy.hasPrefix("default-src 'none'; script-src 'self';") && !policy.contains("unsafe"))
                let text = String(decoding: file.bytes, as: UTF8.self)
                // The name of SVG's elements is no address.
                #expect(!text.replacing("http://www.w3.org/2000/svg", with: "").contains("://"), "\(path) names another server")
                for match in text.matches(of: /(?:src|href)="(console\/[^"]+)"|(?:from|import) "\.\/([^"]+)"/) {
                    left.append(match.output.1.map { "/\($0)" } ?? "/console/\(match.output.2 ?? "")")
                }
            }
            #expect(seen.count > 5, "\(seen)")
            let missing = try await anyone.get("/console/none.js")
            #expect(missing.status == 404 && missing.header("content-type") == "application/problem+json")
            #expect(try await anyone.get("/console/..%2f..%2fMigrations%2fm0001_schema.sql").status == 404)
        }
    }

    @Test("A key of any scope can see what it may do; the answer has no secret", arguments: ["devices", "send", "read", "admin"])
    func ownKey(scope: String) async throws {
        try await RunningService.run { running in
            _ = try await running.client.makeApp()
            let body = #"{"name":"looker","scopes":["\#(scope)"]\#(scope == "admin" ? "" : #","app":"shop""#)}"#
            let made = try await running.client.post("/v1/admin/keys", body).json
            let text = try #require(made.text("key"))
            let own = try await running.client.with(key: text).get("/v1/key")
            #expect(own.status == 200 && own.json.text("id") == made.text("id") && own.json.text("name") == "looker")
            #expect(own.json["scopes"]?.arrayValue?.compactMap(\.stringValue) == [scope])
            #expect(own.json["key"] == nil)
            #expect(try await running.client.with(key: nil).get("/v1/key").status == 401)
        }
    }

    @Test("An app's activity has the last hour's outcomes by minute, and every lane") func activity() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            try await running.execute(
                """
                INSERT INTO outcome_counts (app_id, minute, class, count)
                SELECT a.id, date_trunc('minute', now()) - m.ago * interval '1 minute', m.class, m.count FROM apps a, (VALUES
                    (3, 'accepted', 5), (3, 'token_gone', 2), (0, 'accepted', 1), (61, 'accepted', 9)) AS m (ago, class, count)
                """)
            let activity = try await shop.get("/v1/apps/shop/activity").json
            let minutes = try #require(activity["minutes"]?.arrayValue)
            #expect(minutes.count == 2)
            #expect(minutes.map { $0["outcomes"]?["accepted"]?.integerValue } == [5, 1])
            #expect(minutes.map { $0["outcomes"]?["token_gone"]?.integerValue } == [2, nil])
            let lanes = try #require(activity["lanes"]?.arrayValue)
            #expect(lanes.map { $0.text("lane") } == ["now", "soon", "bulk"])
            #expect(lanes.map { $0["wait_seconds"]?.numberValue } == [0, 0, 0])
            #expect(lanes.map { $0["deadline_seconds"]?.numberValue } == [86_400, 86_400, 86_400])
        }
    }
}
