import Logging
import NIOCore
import NIOPosix
import Observability
import ServiceLifecycle
import StrictJSON
import Synchronization
import Testing

@Suite("The operations server answers operators", .timeLimit(.minutes(5)))
struct OperationsServerTests {
    @Test("It is healthy, ready with every check, and shows its metrics")
    func answers() async throws {
        let metrics = PrometheusMetrics()
        metrics.observe("push_streams") { 3 }
        let readiness = Readiness([.init("broker", isOK: true, "connected"), .init("control", isOK: true, "caught up \"now\"")])
        try await withServer(metrics: metrics, readiness: readiness) { port in
            let health = try await get("/healthz", port: port)
            #expect(health.status == 200)
            #expect(try JSONValue.parse(Array(health.body.utf8))["status"]?.stringValue == "ok")

            let ready = try await get("/readyz", port: port)
            #expect(ready.status == 200)
            #expect(
                ready.body
                    == #"""
                    {"ready":true,"checks":{"broker":{"ok":true,"detail":"connected"},"control":{"ok":true,"detail":"caught up \#
                    \"now\""}}}
                    """#
            )

            let page = try await get("/metrics", port: port)
            #expect(page.status == 200 && page.body == "# TYPE push_streams gauge\npush_streams 3\n")
            #expect(page.head.lowercased().contains("content-type: text/plain; version=0.0.4; charset=utf-8"))
            #expect(try await get("/other", port: port).status == 404)
        }
    }

    @Test("One check that fails makes it unready but not unhealthy")
    func isUnready() async throws {
        let readiness = Readiness([.init("broker", isOK: true, "connected"), .init("control", isOK: false, "catching up")])
        try await withServer(metrics: PrometheusMetrics(), readiness: readiness) { port in
            let ready = try await get("/readyz", port: port)
            #expect(ready.status == 503)
            let value = try JSONValue.parse(Array(ready.body.utf8))
            #expect(value["ready"]?.boolValue == false)
            #expect(value["checks"]?["control"]?["ok"]?.boolValue == false && value["checks"]?["broker"]?["ok"]?.boolValue == true)
            #expect(try await get("/healthz", port: port).status == 200)
        }
    }

    @Test("Paths have one form, and an answer to HEAD has no body", arguments: ["//metrics", "/metrics/", "/%6detrics"])
    func pathsHaveOneForm(path: String) async throws {
        try await withServer(metrics: PrometheusMetrics(), readiness: Readiness([])) { port in
            #expect(try await get(path, port: port).status == 404)
            let head = try await get(path, port: port, method: "HEAD")
            #expect(head.status == 404 && head.body.isEmpty)
        }
    }

    @Test("A path says which methods it takes, and refuses others; HEAD is GET without content")
    func methods() async throws {
        try await withServer(metrics: PrometheusMetrics(), readiness: Readiness([])) { port in
            for path in ["/healthz", "/readyz", "/metrics"] {
                for method in ["POST", "DELETE", "TRACE", "PROPFIND"] {
                    let answer = try await get(path, port: port, method: method)
                    #expect(answer.status == 405 && answer.head.contains("\r\nAllow: GET, HEAD, OPTIONS"), "\(method) \(path)")
                }
                let options = try await get(path, port: port, method: "OPTIONS")
                #expect(options.status == 204 && options.head.contains("\r\nAllow: GET, HEAD, OPTIONS"))
                let whole = try await get(path, port: port)
                let head = try await get(path, port: port, method: "HEAD")
                #expect(Self.undated(head.head) == Self.undated(whole.head) && head.body.isEmpty, "\(path)")
            }
            #expect(try await get("*", port: port, method: "OPTIONS").status == 204)
            #expect(try await get("/none", port: port, method: "DELETE").status == 404)
        }
    }

    @Test("The server closes a connection that is silent or sends too much", arguments: ["", "GET /healthz HTTP/1.1\r\nX: "])
    func strangersAreSentAway(start: String) async throws {
        try await withServer(metrics: PrometheusMetrics(), readiness: Readiness([]), idleTimeout: .seconds(1)) { port in
            #expect(try await exchange(start, port: port) == "")
            let long = try await exchange("GET /healthz HTTP/1.1\r\nX: \(String(repeating: "x", count: 9000))\r\n\r\n", port: port)
            #expect(!long.contains(" 200 "))
            // Nothing comes back on a connection that the machine let wait for a second.
            var answer = ""
            while answer.isEmpty {
                answer = try await exchange("GET /healthz HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n", port: port)
            }
            #expect(answer.hasPrefix("HTTP/1.1 200 "))
        }
    }

    @Test(
        "A request of HTTP/1.0 is the last on its connection, and the answer says so",
        arguments: ["", "Connection: keep-alive\r\n", "Connection: close\r\n"])
    func olderVersion(field: String) async throws {
        try await withServer(metrics: PrometheusMetrics(), readiness: Readiness([])) { port in
            // A server that reads on would answer this as well.
            let follower = "GET /healthz HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n"
            let answer = try await exchange("GET /healthz HTTP/1.0\r\n\(field)\r\n" + follower, port: port)
            #expect(answer.split(separator: "HTTP/1.1 ").map { $0.prefix(3) } == ["200"])
            #expect(answer.lowercased().contains("\r\nconnection: close\r\n"))
        }
    }

    // MARK: Tools

    private static func undated(_ head: String) -> [Substring] {
        head.split(separator: "\r\n").filter { !$0.lowercased().hasPrefix("date:") }
    }

    /// Runs the server on its own port and checks that a graceful stop ends it.
    private func withServer(
        metrics: PrometheusMetrics, readiness: Readiness, idleTimeout: Duration = .seconds(60), _ body: (Int) async throws -> Void
    ) async throws {
        let (ports, listening) = AsyncStream<Int>.makeStream()
        let logger = Logger(label: "silent") { _ in SwiftLogNoOpLogHandler() }
        let server = OperationsServer(
            host: "127.0.0.1", port: 0, metrics: metrics, logger: logger, idleTimeout: idleTimeout,
            readiness: { readiness }, onListening: { listening.yield($0) })
        let services = ServiceGroup(services: [server], logger: logger)
        async let running: Void = services.run()
        let port = try #require(await ports.first { _ in true })
        try await body(port)
        await services.triggerGracefulShutdown()
        try await running
    }

    private func get(_ path: String, port: Int, method: String = "GET") async throws -> (status: Int, head: String, body: String) {
        let answer = try await exchange("\(method) \(path) HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", port: port)
        let end = try #require(answer.firstRange(of: "\r\n\r\n"))
        let status = try #require(answer.split(separator: " ").dropFirst().first.flatMap { Int($0) })
        return (status, String(answer[..<end.lowerBound]), String(answer[end.upperBound...]))
    }

    /// All bytes until the server closes the connection.
    private func exchange(_ text: String, port: Int) async throws -> String {
        let channel = try await ClientBootstrap(group: .singletonMultiThreadedEventLoopGroup)
            .connect(host: "127.0.0.1", port: port) { channel in
                channel.eventLoop.makeCompletedFuture {
                    try NIOAsyncChannel(
                        wrappingChannelSynchronously: channel,
                        configuration: .init(inboundType: ByteBuffer.self, outboundType: ByteBuffer.self))
                }
            }
        return try await channel.executeThenClose { inbound, outbound in
            var answer = ""
            do {
                try await outbound.write(ByteBuffer(string: text))
                for try await part in inbound { answer += String(buffer: part) }
            } catch  where error is IOError || error is ChannelError {
                // The server closed while the test was writing, or before.
            }
            return answer
        }
    }
}
