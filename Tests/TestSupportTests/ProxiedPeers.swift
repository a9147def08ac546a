import Glibc
import SystemIO
import TestSupport

/// A server with a proxy before it. Its methods block, so use it in `onOwnThread`.
final class ProxiedServer: Sendable {
    let listener: TCPListener
    let proxy: FaultProxy

    init(opening: FaultProxy.Opening? = nil, seed: UInt64 = 0) throws {
        listener = try TCPListener(host: "127.0.0.1", port: 0)
        proxy = try FaultProxy(port: listener.port, opening: opening, seed: seed)
    }

    /// A connected client and the server's end of the connection.
    func connect() throws -> (client: Peer, server: Peer) {
        let client = try dial()
        return (client, Peer(try accept()))
    }

    func dial() throws -> Peer {
        Peer(try TCPSocket.connect(to: SocketAddress.resolve(host: "127.0.0.1", port: proxy.port)[0], timeout: .seconds(30)))
    }

    /// The bytes and the end of a connection that the server does not accept. A reset may come during the connect.
    func dialInVain() throws -> (bytes: [UInt8], ending: Peer.Ending) {
        let peer: Peer
        do { peer = try dial() } catch let error as SystemError where error.operation == "connect" && error.code == ECONNRESET {
            return ([], .reset)
        }
        return try peer.receiveAll()
    }

    func accept() throws -> TCPSocket {
        let poller = try Poller()
        try poller.add(listener.descriptor, key: 0, interest: .read)
        while true {
            if let socket = try listener.accept() { return socket }
            guard try !poller.wait(timeout: patience).isEmpty else { throw NothingHappened() }
        }
    }
}

/// One end of a connection. Belongs to one thread at a time.
final class Peer: Sendable {
    enum Ending: Equatable { case endOfStream, reset }

    let socket: TCPSocket

    init(_ socket: TCPSocket) { self.socket = socket }

    func send(_ bytes: [UInt8]) throws {
        var rest = bytes[...]
        while !rest.isEmpty {
            switch try socket.write(rest.span) {
            case .bytes(let count): rest = rest.dropFirst(count)
            case .wouldBlock, .endOfStream: try wait(for: .write)
            }
        }
    }

    /// Receives exactly `count` bytes.
    func receive(_ count: Int) throws -> [UInt8] {
        var bytes: [UInt8] = []
        while bytes.count < count {
            var buffer = [UInt8](repeating: 0, count: count - bytes.count)
            switch try socket.read(into: &buffer) {
            case .bytes(let read): bytes += buffer[..<read]
            case .wouldBlock: try wait(for: .read)
            case .endOfStream: throw EndedEarly(after: bytes.count)
            }
        }
        return bytes
    }

    /// The remaining bytes, and how the connection ends.
    func receiveAll() throws -> (bytes: [UInt8], ending: Ending) {
        var bytes: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 4096)
        while true {
            do {
                switch try socket.read(into: &buffer) {
                case .bytes(let read): bytes += buffer[..<read]
                case .endOfStream: return (bytes, .endOfStream)
                case .wouldBlock: try wait(for: .read)
                }
            } catch let error as SystemError where error.operation == "recv" {
                return (bytes, .reset)
            }
        }
    }

    private func wait(for interest: Poller.Interest) throws {
        let poller = try Poller(capacity: 1)
        try poller.add(socket.descriptor, key: 0, interest: interest)
        guard try !poller.wait(timeout: patience).isEmpty else { throw NothingHappened() }
    }
}

/// A test that waits longer fails.
private let patience = Duration.seconds(40)

struct NothingHappened: Error {}

func withLink(opening: FaultProxy.Opening? = nil, seed: UInt64 = 0, _ body: @escaping @Sendable (ProxiedServer) throws -> Void) async throws
{
    try await onOwnThread {
        let link = try ProxiedServer(opening: opening, seed: seed)
        defer { link.proxy.stop() }
        try body(link)
    }
}

/// Polls until the condition is true, for conditions without a notification.
func eventually(_ condition: () -> Bool) throws {
    let poller = try Poller(capacity: 1)
    let end = ContinuousClock.now + patience
    while !condition() {
        guard ContinuousClock.now < end else { throw NothingHappened() }
        _ = try poller.wait(timeout: .milliseconds(1))
    }
}

struct EndedEarly: Error {
    let after: Int
}

/// `count` bytes whose pattern does not repeat, so that a shift shows.
func numbered(_ count: Int) -> [UInt8] { (0..<count).map { UInt8(truncatingIfNeeded: $0 &* 31 ^ $0 >> 8) } }
