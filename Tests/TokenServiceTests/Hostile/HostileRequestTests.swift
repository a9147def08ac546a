import Observability
import Postgres
import PushModel
import TestSupport
import Testing

@Suite("Hostile bytes end in one clear answer or a closed connection", .serialized, .timeLimit(.minutes(5)))
struct HostileRequestTests {
    @Test("The service reads nothing in two ways and invents no request", arguments: HostileRequest.Group.allCases)
    func ambiguousBytes(group: HostileRequest.Group) async throws {
        try await RunningService.run { running in
            let key = try #require(try await running.client.makeApp().key)
            for hostile in group.requests {
                let (statuses, answer) = try await Self.exchange(hostile, key: key, port: running.client.port)
                switch hostile.result {
                case .answered(let status): #expect(statuses == [status, 200], "\(hostile.name)")
                case .ended(let status):
                    // Closing while the client still writes can cost it the answer.
                    #expect(statuses == [status] || statuses.isEmpty && hostile.bytes.count > 4096, "\(hostile.name)")
                }
                #expect(!answer.contains("sesame"), "\(hostile.name)")
            }
            #expect(!running.metrics.render().contains(#"status="5"#), "something of it was our fault")
            #expect(try await running.count("SELECT count(*) FROM notifications") == 0)
        }
    }

    private static func exchange(_ hostile: HostileRequest, key: String, port: Int) async throws -> ([Int], String) {
        let bytes = hostile.bytes.split(separator: Array("KEY".utf8), omittingEmptySubsequences: false).joined(separator: Array(key.utf8))
        let follower = HostileRequest.follower.replacing("Host: t", with: "Host: t\r\nConnection: close")
        return try await RawConnection.open(port) { connection in
            await connection.send(Array(bytes) + Array(follower.utf8))
            let answer = await connection.readToEnd()
            return (connection.statuses, answer)
        }
    }

    /// A body there would be read as the beginning of the next answer.
    @Test("An answer to HEAD has no body", arguments: ["/v1/admin/apps", "/healthz", "/docs", "/openapi.json", "/none"])
    func answerToHEAD(path: String) async throws {
        try await RunningService.run { running in
            let answer = try await RawConnection.open(running.client.port) { connection in
                await connection.send("HEAD \(path) HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n")
                return await connection.readToEnd()
            }
            #expect(answer.hasSuffix("\r\n\r\n") && answer.split(separator: "\r\n\r\n").count == 1)
        }
    }

    @Test("The service does not unpack a packed body") func packedBody() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            let bomb = "\u{1f}packed"
            for (method, path) in [
                ("PUT", "/v1/apps/shop/installations/\(installation(1))"), ("POST", "/v1/apps/shop/installations"),
                ("POST", "/v1/apps/shop/import"), ("POST", "/v1/apps/shop/notifications"),
            ] {
                for coding in ["gzip", "deflate", "br", "zstd", "identity, gzip"] {
                    let answer = try await shop.call(method, path, bomb, headers: ["content-encoding": coding])
                    #expect(answer.status == 415 && answer.code == "unsupported_media_type", "\(method) \(path) \(coding)")
                }
            }
        }
    }

    @Test(
        "The service answers a body that is not plainly JSON with 400",
        arguments: [
            "\u{feff}{}", "{\"user\":NaN}", "{\"user\":Infinity}", "{\"user\":01}", "{\"user\":1e999999999}", "{\"user\":'a'}",
            "{user:null}",
            "{\"user\":null,}", "{\"user\":null}{}", "{\"user\":null} x", "{\"user\":\"\\ud800\"}", "{\"user\":\"\\udc00\\ud800\"}",
            "{\"user\":\"a\u{1}\"}", "{\"user\":null,\"user\":null}", "{\"us\\u0065r\":null,\"user\":null}", "/* a */{}", "\u{0}",
            "\u{c}{}",
            String(repeating: "{\"a\":", count: 5000), String(repeating: "[", count: 60_000),
            "{\"user\":" + String(repeating: "9", count: 60_000) + "}",
        ])
    func notPlainlyJSON(body: String) async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            let answer = try await shop.put("/v1/apps/shop/installations/\(installation(1))", body)
            #expect(answer.status == 400 && (answer.code == "malformed_json" || answer.code == "invalid_request"))
            #expect(try await running.count("SELECT count(*) FROM installations") == 0)
        }
    }

    @Test(
        "The service answers bytes that are not UTF-8 with 400",
        arguments: [[0xc0, 0xaf], [0xed, 0xa0, 0x80], [0xf4, 0x90, 0x80, 0x80], [0xff], [0xe2, 0x82]] as [[UInt8]]
    )
    func invalidUTF8(bytes: [UInt8]) async throws {
        try await RunningService.run { running in
            let key = try #require(try await running.client.makeApp().key)
            let body = Array(#"{"user":""#.utf8) + bytes + Array(#"","tokens":[]}"#.utf8)
            let answer = try await RawConnection.open(running.client.port) { connection in
                let fields = "Host: t\r\nConnection: close\r\nAuthorization: Bearer \(key)\r\nContent-Length: \(body.count)\r\n"
                await connection.send(Array("PUT /v1/apps/shop/installations/\(installation(1)) HTTP/1.1\r\n\(fields)\r\n".utf8) + body)
                return await connection.readToEnd()
            }
            #expect(answer.hasPrefix("HTTP/1.1 400 ") && answer.contains(#""code":"malformed_json""#))
        }
    }
}
