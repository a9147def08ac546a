import Glibc
import Logging
import NIOCore
import NIOPosix
import Observability
import ServiceLifecycle
import Testing

@Suite("A port that cannot be opened is explained", .timeLimit(.minutes(5)))
struct ListeningPortTests {
    @Test(
        "The sentence names the setting, the address and what to do",
        arguments: [
            (EADDRINUSE, "HTTP_PORT 80 on 127.0.0.1 is taken; stop the other program or choose another port"),
            (
                EADDRNOTAVAIL,
                "HTTP_HOST 127.0.0.1 is no address of this machine; choose one that `ip address` shows, or 0.0.0.0 for all of them"
            ),
            (EACCES, "HTTP_PORT 80 on 127.0.0.1 needs a privilege; choose a port above 1023 or grant CAP_NET_BIND_SERVICE"),
            (EMFILE, "HTTP_PORT 80 on 127.0.0.1 cannot be opened: Too many open files"),
        ])
    func sentences(_ code: CInt, _ sentence: String) {
        let port = ListeningPort(host: "127.0.0.1", port: 80, hostKey: "http.host", portKey: "http.port")
        #expect(port.failure(code: code, words: "Too many open files").description == sentence)
    }

    @Test(
        "The operations' server says so of its own",
        arguments: [
            ("127.0.0.1", "OPERATIONS_PORT PORT on 127.0.0.1 is taken; stop the other program or choose another port"),
            (
                "192.0.2.1",
                "OPERATIONS_HOST 192.0.2.1 is no address of this machine; choose one that `ip address` shows, or 0.0.0.0 for all of them"
            ),
            ("a b", "OPERATIONS_HOST a b cannot be resolved; choose an address of this machine, such as 127.0.0.1 or 0.0.0.0"),
        ])
    func operations(_ host: String, _ sentence: String) async throws {
        let other = try await ServerBootstrap(group: .singletonMultiThreadedEventLoopGroup).bind(host: "127.0.0.1", port: 0).get()
        let port = try #require(other.localAddress?.port)
        let server = OperationsServer(
            host: host, port: port, metrics: PrometheusMetrics(), logger: Logger(label: "test", factory: { _ in SwiftLogNoOpLogHandler() }),
            readiness: { Readiness([]) })
        let error = await #expect(throws: ListeningError.self) { try await server.run() }
        #expect(error?.description == sentence.replacing("PORT PORT", with: "PORT \(port)"))
        try await other.close()
    }
}
