import Observability
import StrictJSON
import TestSupport
import Testing

@testable import TokenService

@Suite("Streams are limited and counted", .serialized, .timeLimit(.minutes(5)))
struct StreamLimitTests {
    private static let one = RunningService.Options(settings: ["HTTP_MAX_CONCURRENT_STREAMS": "1"])

    /// - Parameter shop: Not the key that has the stream.
    private static func refuseEveryStream(_ shop: APITestClient, _ admin: APITestClient) async throws {
        for refused in [
            try await shop.call("POST", "/v1/apps/shop/import", headers: ["content-type": "application/x-ndjson"]),
            try await shop.get("/v1/apps/shop/export"), try await admin.post("/v1/apps/shop/users/ada/export"),
        ] {
            #expect(refused.status == 503 && refused.code == "overloaded" && refused.header("Retry-After") == "1")
            #expect(refused.json["retryable"]?.boolValue == true)
        }
        #expect(try await shop.get("/v1/apps/shop/users/ada/installations").status == 200, "others are not concerned")
    }

    private static func whenFree(_ running: RunningService) async throws {
        _ = try await eventually {
            running.metrics.render().contains("push_token_service_http_streams_in_progress 0") ? true : nil
        }
    }

    @Test("Beyond the limit the service refuses streams until one ends") func streamLimit() async throws {
        try await RunningService.run(Self.one) { running in
            let shop = try await running.client.makeApp()
            let admin = try await running.client.makeKey(app: "shop", scopes: ["admin"])
            let other = try await running.client.makeKey(app: "shop", scopes: ["devices"])
            let feed = LineFeed()
            try await shop.importing(feed) { answers in
                feed.send((1...512).map { importLine($0) })
                _ = try await answers.first { $0.number("through") == 512 }
                #expect(running.metrics.render().contains("push_token_service_http_streams_in_progress 1"))
                try await Self.refuseEveryStream(other, admin)
                let ofKey = try await shop.get("/v1/apps/shop/export")
                #expect(ofKey.status == 429 && ofKey.code == "concurrency_limited")
                feed.finish()
                _ = try await answers.first { $0["done"]?.boolValue == true }
            }
            #expect(running.metrics.render().contains(#"push_token_service_http_requests_shed_total{reason="streams"} 3"#))
            try await Self.whenFree(running)
            #expect(try await shop.export().status == 200)
            try await Self.whenFree(running)
            #expect(try await admin.post("/v1/apps/shop/users/ada/export").status == 200)
            try await Self.whenFree(running)
        }
    }

    @Test("A client that goes away gives its place back") func departedClient() async throws {
        try await RunningService.run(Self.one) { running in
            let shop = try await running.client.makeApp()
            let key = try #require(shop.key)
            let line = importLine(1)
            for _ in 1...3 {
                try await RawConnection.open(running.client.port) { client in
                    await client.send(
                        """
                        POST /v1/apps/shop/import HTTP/1.1\r\nHost: test\r\nAuthorization: Bearer \(key)\r
                        Transfer-Encoding: chunked\r\n\r\n\(String(line.utf8.count + 1, radix: 16))\r\n\(line)\n\r\n
                        """)
                    #expect(await client.read(until: "\r\n\r\n").hasPrefix("HTTP/1.1 200 "))
                    let refused = try await shop.get("/v1/apps/shop/export")
                    #expect(refused.status == 429)
                }
                try await Self.whenFree(running)
            }
            #expect(try await shop.export().status == 200)
        }
    }

    @Test("A refused stream takes no place") func refusedStream() async throws {
        try await RunningService.run(Self.one) { running in
            let shop = try await running.client.makeApp()
            let admin = try await running.client.makeKey(app: "shop", scopes: ["admin"])
            for _ in 1...3 {
                #expect(try await shop.get("/v1/apps/shop/export?after=x").status == 400)
                #expect(try await shop.call("POST", "/v1/apps/shop/import?from_line=0").status == 400)
                #expect(try await admin.post("/v1/apps/shop/users/ada/export", #"{"a":1}"#).status == 400)
            }
            try await Self.whenFree(running)
            #expect(running.metrics.render().contains("push_token_service_http_requests_shed_total{reason=\"streams\"} 0\n"))
        }
    }

    @Test("Items and lines count as requests of their key") func countedItems() async throws {
        try await RunningService.run { running in
            _ = try await running.client.makeApp()
            func limited() async throws -> APITestClient {
                let made = try await running.client.post(
                    "/v1/admin/keys", #"{"app":"shop","name":"limited","scopes":["devices"],"requests_per_second":10}"#)
                return running.client.with(key: made.json.text("key"))
            }
            let items = (1...600).map { importLine($0) }
            let bulk = try await limited()
            let body = #"{"installations":[\#(items.joined(separator: ","))]}"#
            #expect(try await bulk.post("/v1/apps/shop/installations", body).status == 200)
            let importing = try await limited()
            #expect(try await importing.importLines(items).status == 200)
            for client in [bulk, importing] {
                let refused = try await client.get("/v1/apps/shop/installations?limit=1")
                #expect(refused.status == 429 && refused.header("RateLimit-Remaining") == "0")
                #expect((refused.header("Retry-After").flatMap { Int($0) } ?? 0) > 30, "ten a second, and six hundred were made")
            }
        }
    }
}
