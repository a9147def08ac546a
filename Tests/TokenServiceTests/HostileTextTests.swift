import HTTPTypes
import PushModel
import StrictJSON
import Testing
import TokenServiceAPI
import TokenServiceApps

@Suite("Names with control characters are refused where they come in", .serialized, .timeLimit(.minutes(5)))
struct HostileTextTests {
    /// Each part of each path, and each parameter of each query, with a character in it.
    private static func paths(_ operation: Operation, _ character: String) -> [String] {
        let route = operation.route.path
        let good = [("{app}", "shop"), ("{slug}", "shop"), ("{user}", "ada"), ("{id}", installation(1).description)]
        func filled(_ path: String) -> String { good.reduce(path) { $0.replacing($1.0, with: $1.1) } }
        let parts = good.map(\.0).filter { route.contains($0) }.map { filled(route.replacing($0, with: "a\(character)b")) }
        let queries = operation.parameters.filter { $0.place == .query }.map { "\(filled(route))?\($0.name)=a\(character)b" }
        return parts + queries
    }

    @Test("A control character in a path or a query is a refusal, wherever it stands") func inPathsAndQueries() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            try await shop.register(installation(1), user: "ada", token: token(1))
            var tried = 0
            for operation in OpenAPIDocument.operations where !operation.route.scopes.isEmpty {
                for path in ["%00", "%01", "%0a", "%7f"].flatMap({ Self.paths(operation, $0) }) {
                    let body = [.post, .put, .patch].contains(operation.route.method) ? "{}" : nil
                    let answer = try await running.client.call(operation.route.method.rawValue, path, body)
                    #expect((400..<500).contains(answer.status), "\(operation.route.method.rawValue) \(path): \(answer.status)")
                    tried += 1
                }
            }
            #expect(tried > 240)
        }
    }

    private static let user = #"{"user":"a\u0001","tokens":[]}"#
    private static let appTags = #"{"user":"ada","tokens":[],"app_tags":["beta","a\u0001"]}"#
    private static let item = #"{"id":"\#(installation(1))","user":"ada","tokens":[],"tags":["a\u0001"],"app_tags":["\u007f"]}"#

    /// Method, path behind the app, body, and the name that is refused.
    private static let bodies: [(String, String, String, String)] = [
        ("PUT", of, user, "/user"), ("PUT", of, appTags, "/app_tags/1"), ("PATCH", of, #"{"app_tags":["a\u001f"]}"#, "/app_tags/0"),
        ("PUT", "\(of)/tags", #"{"tags":["a\n"]}"#, "/tags/0"),
        ("POST", "notifications", #"{"to":{"users":["a\t"]},"content":{"alert":"a\nb"}}"#, "/to/users/0"),
        ("PUT", "\(of)/activities/ride", #"{"token":"0a","channel":"a\u0001"}"#, "/channel"),
        ("POST", "holds", #"{"all":true,"reason":"a\u0001"}"#, "/reason"),
    ]
    private static let of = "installations/\(installation(1))"

    @Test("A control character in a name is a problem of that name") func inBodies() async throws {
        try await RunningService.run { running in
            _ = try await running.client.makeApp()
            let shop = try await running.client.makeKey(app: "shop", scopes: ["devices", "send", "read", "admin"])
            try await shop.register(installation(1), user: "ada", token: token(1))
            for (method, path, body, pointer) in Self.bodies {
                let answer = try await shop.call(method, "/v1/apps/shop/\(path)", body)
                #expect(answer.status == 400 && answer.problems == ["\(pointer) invalid_character"], "\(body): \(answer.problems)")
            }
        }
    }

    @Test("A control character in a tag is the problem of that item of a batch, and of that line of an import") func inLists() async throws
    {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            let expected = ["/tags/0 invalid_character", "/app_tags/0 invalid_character"]
            let bulk = try await shop.post("/v1/apps/shop/installations", #"{"installations":[\#(Self.item)]}"#)
            let lines = try await shop.importLines([Self.item]).lines
            for (error, place) in [(bulk.json["results"]?[0]?["error"], "/installations/0"), (lines.first?["error"], "")] {
                let problems = error?["errors"]?.arrayValue?.map { "\($0.text("pointer") ?? "?") \($0.text("code") ?? "?")" }
                #expect(problems == expected.map { place + $0 })
            }
        }
    }
}
