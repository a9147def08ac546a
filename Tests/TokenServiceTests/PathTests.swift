import AsyncHTTPClient
import NIOCore
import NIOHTTP1
import Testing

@testable import TokenServiceApps
@testable import TokenServiceSending

@Suite("A path is taken exactly as it is written", .timeLimit(.minutes(5)))
struct PathTests {
    @Test("The service answers and counts a route as that route") func exactRoute() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            for end in ["", "?"] { #expect(try await Self.send(shop, "/v1/apps/shop/notifications\(end)") == .accepted, "\(end)") }
            // The router would pass over empty parts; no route is found by them.
            for path in ["//v1/apps/shop/notifications", "/v1/apps/shop/notifications/", "/v1/apps//shop/notifications?a=b"] {
                #expect(try await Self.send(shop, path) == .notFound, "\(path)")
            }
            let page = String(decoding: try await shop.get("/metrics").bytes, as: UTF8.self)
            let series = page.split(separator: "\n").filter { $0.contains("requests_total{") && $0.contains(#"status="202""#) }
            #expect(series.count == 1)
            #expect(series.first?.contains(#"route="\#(APIRoute.send.path)""#) == true && series.first?.hasSuffix(" 2") == true)
        }
    }

    private static func send(_ client: APITestClient, _ path: String) async throws -> HTTPResponseStatus {
        var request = HTTPClientRequest(url: "http://127.0.0.1:\(client.port)\(path)")
        request.method = .POST
        request.headers.add(name: "authorization", value: "Bearer \(client.key ?? "")")
        request.body = .bytes(ByteBuffer(string: #"{"to":{"user":"ada"},"content":{"alert":"Hello"}}"#))
        let response = try await HTTPClient.shared.execute(request, timeout: .minutes(2))
        _ = try await response.body.collect(upTo: 65_536)
        return response.status
    }
}
