import Logging
import NIOCore
import NIOPosix
import Observability
import ServiceLifecycle
import StrictJSON
import Synchronization
import Testing

@Suite("What a running service answers to its operators", .timeLimit(.minutes(1)))
struct OperationsServerTests {
    @Test("It is healthy, ready with every check, and shows its metrics")
    func answers() async throws {
        let metrics = PrometheusMetrics()
        metrics.observe("push_streams", "Streams.") { 3 }
        let readiness = Readiness([.init("broker", isOK: true, "connected"), .init("control", isOK: true, "caught up \"now\"")])
        try await withServer(metrics: metrics, readiness: readiness) { port in
            let health = try await get("/healthz", port: port)
            #expect(health.status == 200)
            #expect(try JSONValue.parse(Array(health.body.utf8))["status"]?.stringValue == "ok")

            let ready = try await get("/readyz", port: port)
            #expect(ready.status == 200)
            #expect(
                ready.body
                    == #"{"ready":true,"checks":{"broker":{"ok":true,"detail":"connected"},"control":{"ok":true,"detail":"caught up \"now\""}}}"#
            )

            let page = try await get("/metrics", port: port)
            #expect(page.status == 200 && page.body == "# HELP push_streams Streams.\n# TYPE push_streams gauge\npush_streams 3\n")
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

    // MARK: Tools

    /// Runs the server on a port of its own, and checks that a graceful stop ends it.
    private func withServer(metrics: PrometheusMetrics, readiness: Readiness, _ body: (Int) async throws -> Void) async throws {
        let (ports, listening) = AsyncStream<Int>.makeStream()
        let logger = Logger(label: "silent") { _ in SwiftLogNoOpLogHandler() }
        let server = OperationsServer(
            host: "127.0.0.1", port: 0, metrics: metrics, logger: logger, readiness: { readiness }, onListening: { listening.yield($0) })
        let services = ServiceGroup(services: [server], logger: logger)
        async let running: Void = services.run()
        let port = try #require(await ports.first { _ in true })
        try await body(port)
        await services.triggerGracefulShutdown()
        try await running
    }

    private func get(_ path: String, port: Int) async throws -> (status: Int, head: String, body: String) {
        let channel = try await ClientBootstrap(group: .singletonMultiThreadedEventLoopGroup)
            .connect(host: "127.0.0.1", port: port) { channel in
                channel.eventLoop.makeCompletedFuture {
                    try NIOAsyncChannel(
                        wrappingChannelSynchronously: channel,
                        configuration: .init(inboundType: ByteBuffer.self, outboundType: ByteBuffer.self))
                }
            }
        let answer = try await channel.executeThenClose { inbound, outbound in
            try await outbound.write(ByteBuffer(string: "GET \(path) HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"))
            var answer = ""
            for try await part in inbound { answer += String(buffer: part) }
            return answer
        }
        let end = try #require(answer.firstRange(of: "\r\n\r\n"))
        let status = try #require(answer.split(separator: " ").dropFirst().first.flatMap { Int($0) })
        return (status, String(answer[..<end.lowerBound]), String(answer[end.upperBound...]))
    }
}
