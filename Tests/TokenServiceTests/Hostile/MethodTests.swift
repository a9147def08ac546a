import HTTPTypes
import NIOCore
import Observability
import Postgres
import PushModel
import TestSupport
import Testing
import TokenServiceAPI
import TokenServiceApps
import TokenServiceOutcomes

@Suite("Every path answers every method (RFC 9110 sections 9.3 and 15.5.6)", .serialized, .timeLimit(.minutes(5)))
struct MethodTests {
    private static let methods = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND", "M-SEARCH"]

    private static func concrete(_ path: String) -> String {
        let id = path.contains("/keys/") ? "0123456789abcdef" : installation(1).description
        return path.replacing("{app}", with: "shop").replacing("{slug}", with: "shop").replacing("{user}", with: "ada")
            .replacing("{id}", with: id)
    }

    /// What the table of routes says of each path.
    private static var taken: [String: Set<String>] {
        var taken: [String: Set<String>] = [:]
        for route in APIRoute.all + APIRoute.open {
            taken[route.path, default: ["OPTIONS"]].formUnion(route.method == .get ? ["GET", "HEAD"] : [route.method.rawValue])
        }
        return taken
    }

    private static func request(_ method: String, _ path: String, key: String? = nil, isLast: Bool = false) -> String {
        "\(method) \(path) HTTP/1.1\r\nHost: t\r\n" + (key.map { "Authorization: Bearer \($0)\r\n" } ?? "")
            + (isLast ? "Connection: close\r\n" : "") + "\r\n"
    }

    @Test("A path answers a method that it does not take with 405 and the methods that it takes") func refusedMethods() async throws {
        try await RunningService.run { running in
            for (path, taken) in Self.taken {
                let allow = "Allow: " + taken.sorted().joined(separator: ", ") + "\r\n"
                for method in Self.methods where !taken.contains(method) {
                    let answer = try await RawConnection.open(running.client.port) { connection in
                        await connection.send(Self.request(method, Self.concrete(path)) + Self.request("GET", "/healthz", isLast: true))
                        _ = await connection.readToEnd()
                        #expect(connection.statuses == [405, 200], "\(method) \(path)")
                        return connection.received
                    }
                    #expect(answer.contains("\r\n\(allow)"), "\(method) \(path): \(answer)")
                    #expect(answer.contains("method_not_allowed") == (method != "HEAD"), "an answer to HEAD has no content: \(path)")
                }
            }
            // A word that a client invents makes no series.
            let page = running.metrics.render()
            #expect(page.contains(#"http_requests_total{method="other",route="/v1/admin/apps",status="405"} 2"#))
            #expect(!page.contains("PROPFIND"))
        }
    }

    @Test("OPTIONS lists the methods of a path and says nothing of the server") func optionsOfPath() async throws {
        try await RunningService.run { running in
            for (path, taken) in Self.taken {
                let answer = try await RawConnection.open(running.client.port) { connection in
                    await connection.send(Self.request("OPTIONS", Self.concrete(path)) + Self.request("OPTIONS", "*", isLast: true))
                    _ = await connection.readToEnd()
                    #expect(connection.statuses == [204, 204], "\(path)")
                    return connection.received
                }
                #expect(answer.contains("\r\nAllow: \(taken.sorted().joined(separator: ", "))\r\n"), "\(path): \(answer)")
                #expect(!answer.lowercased().contains("content-length"), "\(path): \(answer)")
            }
        }
    }

    /// The names of the fields, and the length where it is known.
    private struct Head: Equatable {
        let status: Substring
        let names: [String]
        let length: String?

        init(_ text: some StringProtocol) {
            let lines = text.split(separator: "\r\n").map { $0 }
            status = Substring(lines.first ?? "")
            let fields = lines.dropFirst().map { $0.split(separator: ":", maxSplits: 1).map { $0.lowercased() } }
            names = fields.compactMap(\.first).sorted()
            length = fields.first { $0.first == "content-length" }?.last
        }
    }

    @Test("HEAD is GET without content") func headWithoutContent() async throws {
        try await RunningService.run { running in
            _ = try await running.client.makeApp()
            let shop = try await running.client.makeKey(app: "shop", scopes: ["devices", "send", "read", "admin"])
            try await shop.register(installation(1), user: "ada", token: token(1))
            for route in APIRoute.all + APIRoute.open where route.method == .get {
                let key = try #require(route.isOfApp ? shop.key : running.client.key)
                let path = Self.concrete(route.path) + (route == .explainNotification ? "?user=ada" : "")
                let whole = try await RawConnection.open(running.client.port) { connection in
                    await connection.send(Self.request("GET", path, key: key))
                    await connection.send(Self.request("GET", "/healthz", isLast: true))
                    return await connection.readToEnd()
                }
                let bare = try await RawConnection.open(running.client.port) { connection in
                    await connection.send(Self.request("HEAD", path, key: key) + Self.request("GET", "/healthz", isLast: true))
                    _ = await connection.readToEnd()
                    #expect(connection.statuses.count == 2 && connection.statuses.last == 200, "\(path)")
                    return connection.received
                }
                let heads = bare.split(separator: "\r\n\r\n", omittingEmptySubsequences: false)
                // Two heads and the content of the second answer: nothing stands between the two.
                #expect(heads.count == 3 && heads[1].hasPrefix("HTTP/1.1 200"), "\(path): \(bare)")
                let (ofGet, ofHead) = (Head(whole.headOfFirst), Head(heads[0]))
                #expect(ofGet.status == ofHead.status && ofGet.names == ofHead.names, "\(path)")
                // The page of metrics counts the very requests that ask for it.
                #expect(ofGet.length == ofHead.length || route == .metrics, "\(path)")
            }
        }
    }
}

extension StringProtocol {
    /// Up to the first empty line.
    fileprivate var headOfFirst: String {
        String(self).split(separator: "\r\n\r\n", maxSplits: 1).first.map(String.init) ?? ""
    }
}
