import HTTP2
import Synchronization
import SystemIO
import TestSupport
import Testing

@testable import APNs

/// An HTTP proxy. It reads a request head, gives the answer of the test, and then passes bytes both ways.
private final class ProxyServer: Sendable {
    let port: Int
    let heads = Signal<String>()
    private let listener: TCPListener
    private let answer: @Sendable (String) -> String
    private let target: SocketAddress

    init(to port: Int, answer: @escaping @Sendable (String) -> String) throws {
        listener = try TCPListener(host: "127.0.0.1", port: 0)
        self.port = listener.port
        self.answer = answer
        target = try SocketAddress.resolve(host: "127.0.0.1", port: port)[0]
        try SystemThread.start(name: "proxy") { [self] in
            do { try accept() } catch { listener.close() }
        }
    }

    func stop() { listener.close() }

    private func accept() throws {
        let poller = try Poller()
        try poller.add(listener.descriptor, key: 0, interest: .read)
        while true {
            _ = try poller.wait(timeout: nil)
            while let socket = try listener.accept() {
                try SystemThread.start(name: "proxied") { [self] in
                    do { try serve(socket) } catch { socket.close() }
                }
            }
        }
    }

    private func serve(_ client: TCPSocket) throws {
        let poller = try Poller()
        try poller.add(client.descriptor, key: 0, interest: .read)
        var (head, buffer) = ([UInt8](), [UInt8](repeating: 0, count: 65_536))
        while !String(decoding: head, as: UTF8.self).hasSuffix("\r\n\r\n") {
            _ = try poller.wait(timeout: nil)
            guard case .bytes(let count) = try client.read(into: &buffer) else { return client.close() }
            head += buffer[..<count]
        }
        let asked = String(decoding: head, as: UTF8.self)
        heads.send(asked)
        let said = answer(asked)
        // One byte at a time, because an answer may come in any pieces. What follows the head comes with its last byte: a reader that has
        // the whole head already could not know of it.
        let bytes = Array(said.utf8)
        let last = said.firstRange(of: "\r\n\r\n").map { said.utf8.distance(from: said.startIndex, to: $0.upperBound) - 1 } ?? bytes.count
        for byte in bytes[..<last] { try Self.write([byte], to: client) }
        try Self.write(Array(bytes[last...]), to: client)
        guard said.hasPrefix("HTTP/1.1 200") else { return client.close() }
        let server = try TCPSocket.connect(to: target, timeout: .seconds(10))
        try poller.add(server.descriptor, key: 1, interest: .read)
        while true {
            for event in try poller.wait(timeout: nil) {
                let (from, to) = event.key == 0 ? (client, server) : (server, client)
                switch try from.read(into: &buffer) {
                case .bytes(let count): try Self.write(Array(buffer[..<count]), to: to)
                case .wouldBlock: break
                case .endOfStream:
                    client.close()
                    return server.close()
                }
            }
        }
    }

    private static func write(_ bytes: [UInt8], to socket: TCPSocket) throws {
        var left = bytes[...]
        while !left.isEmpty { if case .bytes(let count) = try socket.write(Array(left).span) { left = left.dropFirst(count) } }
    }
}

@Suite("Through an HTTP proxy", .timeLimit(.minutes(5)))
struct ProxyTests {
    private func bench(_ proxy: ProxyServer, authorization: String? = nil) throws -> PoolBench {
        // The proxy resolves the name.
        try PoolBench(port: 443, host: "apns.invalid") {
            $0.proxy = APNsProxy(host: "127.0.0.1", port: proxy.port, authorization: authorization)
            // The time for the tunnel and TLS, where there is a tunnel.
            $0.patience = authorization == nil ? .milliseconds(100) : .seconds(60)
        }
    }

    @Test("Requests go to APNs over TLS through the tunnel of the proxy") func tunnel() async throws {
        let server = try ScriptedServer()
        let proxy = try ProxyServer(to: server.port) { _ in "HTTP/1.1 200 Connection established\r\nVia: test\r\n\r\n" }
        let bench = try bench(proxy, authorization: "Basic dXNlcjpwYXNz")
        bench.submit(.make(50))
        #expect(try await bench.next()[1]?.acceptedCount == 50)
        let head = try await proxy.heads.next()
        #expect(
            head == "CONNECT apns.invalid:443 HTTP/1.1\r\nHost: apns.invalid:443\r\nProxy-Authorization: Basic dXNlcjpwYXNz\r\n\r\n")
        #expect(server.requests.waiting.allSatisfy { $0.headers["proxy-authorization"] == nil })
        await bench.pool.shutdown(deadline: .zero)
        proxy.stop()
        server.stop()
    }

    @Test(
        "A proxy that opens no tunnel is an error that says why",
        arguments: [
            ("HTTP/1.1 407 Proxy Authentication Required\r\n\r\n", "APNS_PROXY_CREDENTIALS_FILE"),
            ("HTTP/1.1 502 Bad Gateway\r\n\r\n", "502"),
            ("SSH-2.0-OpenSSH\r\n\r\n", "no answer"), ("", "closed"), ("HTTP/1.1 200 OK\r\n\r\nmore", "no answer"),
        ])
    func noTunnel(answer: String, part: String) async throws {
        let proxy = try ProxyServer(to: FreePorts.closed) { _ in answer }
        let bench = try bench(proxy)
        bench.submit(.make(1))
        let event = try await bench.events.first { if case .connectionFailed = $0 { true } else { false } }
        guard case .connectionFailed(_, let reason) = event else { return }
        #expect(reason.hasPrefix("proxy: ") && reason.contains(part), "\(reason)")
        #expect(try await bench.next()[1]?[0] == .notSent(.notConnected))
        await bench.pool.shutdown(deadline: .zero)
        proxy.stop()
    }
}
