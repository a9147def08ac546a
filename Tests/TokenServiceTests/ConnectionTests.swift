import Postgres
import PushModel
import TestSupport
import Testing
import TokenServiceAPI
import TokenServiceApps
import TokenServiceKit

/// `HTTP_MAX_CONNECTIONS`, heads that are too large, clients that are too slow.
@Suite("A connection is held to limits", .serialized, .timeLimit(.minutes(5)))
struct ConnectionTests {
    private static func options(_ settings: [String: String]) -> RunningService.Options { RunningService.Options(settings: settings) }

    /// Runs a process that gives a client a second for its body. The app comes from another process, which cuts off no client of a busy
    /// machine.
    private static func withImpatientService(_ body: @escaping @Sendable (RunningService, APITestClient) async throws -> Void) async throws
    {
        try await RunningService.run { usual in
            let shop = try await usual.client.makeApp()
            try await usual.another(options(["HTTP_BODY_TIMEOUT_SECONDS": "1"])) { running in try await body(running, shop) }
        }
    }

    private static func head(_ method: String, _ path: String, _ more: String = "", key: String? = nil) -> String {
        let authorization = key.map { "Authorization: Bearer \($0)\r\n" } ?? ""
        return "\(method) \(path) HTTP/1.1\r\nHost: test\r\n\(authorization)\(more)\r\n"
    }

    @Test(
        "The service answers a head that is too large with 431 and closes the connection",
        arguments: [
            "X-Long: \(String(repeating: "x", count: 9000))\r\n",
            (0..<101).map { "X-\($0): 1\r\n" }.joined(),
            (0..<5).map { "X-\($0): \(String(repeating: "x", count: 4000))\r\n" }.joined(),
        ])
    func largeHead(fields: String) async throws {
        try await RunningService.run { running in
            let answer = try await RawConnection.open(running.client.port) { connection in
                await connection.send(Self.head("GET", "/healthz", fields))
                return await connection.readToEnd()
            }
            #expect(answer.hasPrefix("HTTP/1.1 431 Request Header Fields Too Large\r\n"))
            #expect(answer.contains(#""code":"headers_too_large""#))
            #expect(try await running.client.get("/healthz").status == 200)
        }
    }

    @Test("The head of an ordinary client is not too large") func ordinaryHead() async throws {
        try await RunningService.run { running in
            let fields = (0..<60).map { "X-\($0): \(String(repeating: "x", count: 200))\r\n" }.joined() + "Connection: close\r\n"
            let answer = try await RawConnection.open(running.client.port) { connection in
                await connection.send(Self.head("GET", "/healthz", fields))
                return await connection.readToEnd()
            }
            #expect(answer.hasPrefix("HTTP/1.1 200 OK\r\n"))
        }
    }

    @Test("The service answers a body that stops with 408 and closes the connection") func stoppedBody() async throws {
        try await Self.withImpatientService { running, shop in
            let answer = try await RawConnection.open(running.client.port) { connection in
                await connection.send(
                    Self.head("PUT", "/v1/apps/shop/installations/\(installation(1))", "Content-Length: 100\r\n", key: shop.key) + "{")
                return await connection.readToEnd()
            }
            #expect(answer.hasPrefix("HTTP/1.1 408 Request Timeout\r\n"))
            #expect(answer.contains(#""code":"body_timeout""#))
            #expect(try await running.count("SELECT count(*) FROM installations") == 0)
        }
    }

    /// The status of an import is said before its lines are read.
    @Test("The service cuts an import that stops, and the description promises no 408") func stoppedImport() async throws {
        try await Self.withImpatientService { running, shop in
            let answer = try await RawConnection.open(running.client.port) { connection in
                await connection.send(Self.head("POST", "/v1/apps/shop/import", "Content-Length: 100\r\n", key: shop.key) + "{")
                return await connection.readToEnd()
            }
            #expect(answer.hasPrefix("HTTP/1.1 200 OK\r\n"))
            #expect(!answer.contains("body_timeout") && !answer.contains(#""done""#))
        }
        let operation = try #require(OpenAPIDocument.operations.first { $0.id == "importInstallations" })
        #expect(!operation.problems.contains(.bodyTimeout))
    }

    /// Each byte alone would be in time.
    @Test("The service answers a body that trickles with 408 as well") func tricklingBody() async throws {
        try await Self.withImpatientService { running, shop in
            let answer = try await RawConnection.open(running.client.port) { connection in
                await connection.send(
                    Self.head("PUT", "/v1/apps/shop/installations/\(installation(1))", "Content-Length: 60000\r\n", key: shop.key) + "{")
                while await connection.send(" ") { try await Task.sleep(for: .milliseconds(50)) }
                return await connection.readToEnd()
            }
            #expect(answer.hasPrefix("HTTP/1.1 408 "))
        }
    }

    @Test("The service takes a body that comes in pieces and in time") func bodyInPieces() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            let body = #"{"user":"ada","tokens":[{"token":"\#(token(1))"}]}"#
            let answer = try await RawConnection.open(running.client.port) { connection in
                let fields = "Content-Length: \(body.utf8.count)\r\nConnection: close\r\n"
                await connection.send(Self.head("PUT", "/v1/apps/shop/installations/\(installation(1))", fields, key: shop.key))
                for character in body {
                    await connection.send(String(character))
                    await Task.yield()
                }
                return await connection.readToEnd()
            }
            #expect(answer.hasPrefix("HTTP/1.1 201 "))
        }
    }

    @Test(
        "The service closes a connection that sends no whole head",
        arguments: ["", "GET /healthz HTT", "GET /healthz HTTP/1.1\r\nHost: te"]
    )
    func incompleteHead(start: String) async throws {
        try await RunningService.run(Self.options(["HTTP_IDLE_TIMEOUT_SECONDS": "1"])) { running in
            let answer = try await RawConnection.open(running.client.port) { connection in
                await connection.send(start)
                while !start.isEmpty, await connection.send("x") { try await Task.sleep(for: .milliseconds(50)) }
                return await connection.readToEnd()
            }
            #expect(!answer.contains(" 200 "))
        }
    }

    @Test("The service closes a connection that its client does not use again") func idleConnection() async throws {
        try await RunningService.run(Self.options(["HTTP_IDLE_TIMEOUT_SECONDS": "1"])) { running in
            // Empty where the machine let the connection wait for a second before anything was sent.
            let answer = try await eventually {
                let answer = try await RawConnection.open(running.client.port) { connection in
                    await connection.send(Self.head("GET", "/healthz"))
                    return await connection.readToEnd()
                }
                return answer.isEmpty ? nil : answer
            }
            #expect(answer.hasPrefix("HTTP/1.1 200 OK\r\n"))
        }
    }

    /// A refusal does not wait for the body it refuses, and does not swallow it for ever.
    @Test("The service does not read a refused upload to its end") func refusedUpload() async throws {
        try await RunningService.run { running in
            let length = 1 << 30
            let sent = try await RawConnection.open(running.client.port) { connection in
                await connection.send(Self.head("POST", "/v1/apps/shop/notifications", "Content-Length: \(length)\r\n"))
                #expect(await connection.read(until: "}").hasPrefix("HTTP/1.1 401 "))
                var sent = 0
                let piece = String(repeating: "x", count: 16_384)
                while sent < length, await connection.send(piece) { sent += piece.utf8.count }
                return sent
            }
            #expect(sent < length)
        }
    }

    /// Answers of some megabytes that the client does not take.
    @Test("The service cuts off a client that takes no answer") func untakenAnswers() async throws {
        try await Self.withImpatientService { running, _ in
            try await running.execute(
                """
                INSERT INTO api_keys (id, secret_sha256, name, scopes)
                SELECT lpad(to_hex(n), 16, '0'), sha256(n::text::bytea), repeat('x', 100), '{read}' FROM generate_series(1, 10000) n
                """)
            try await RawConnection.open(running.client.port) { connection in
                let request = Self.head("GET", "/v1/admin/keys", key: running.client.key)
                while await connection.send(request) { try await Task.sleep(for: .milliseconds(50)) }
            }
            #expect(try await running.client.get("/healthz").status == 200)
        }
    }

    @Test("Connections beyond the limit wait for their turn") func connectionLimit() async throws {
        try await RunningService.run(Self.options(["HTTP_MAX_CONNECTIONS": "1"])) { running in
            let port = running.client.port
            let order = Box<Bool>()
            let second = try await RawConnection.open(port) { first in
                await first.send(Self.head("GET", "/healthz"))
                #expect(await first.read(until: "}").hasPrefix("HTTP/1.1 200 "))
                let second = Task {
                    try await RawConnection.open(port) { second in
                        await second.send(Self.head("GET", "/healthz", "Connection: close\r\n"))
                        let answer = await second.readToEnd()
                        #expect(order.value == true, "answered while the first connection was open")
                        return answer
                    }
                }
                for _ in 0..<200 {
                    await first.send(Self.head("GET", "/nothing"))
                    #expect(await first.read(until: "404").isEmpty == false)
                    first.forget()
                }
                order.open(true)
                return second
            }
            #expect(try await second.value.hasPrefix("HTTP/1.1 200 "))
        }
    }
}
