import APNsSimulator
import OpenSSL
import SystemIO
import TestIdentity

/// A client that sends any bytes inside TLS and reads frames itself. One test, one thread.
final class RawClient {
    struct Received: Equatable {
        let kind: UInt8
        let flags: UInt8
        let stream: UInt32
        let payload: [UInt8]

        /// The error code of RST_STREAM and GOAWAY.
        var errorCode: UInt32? {
            switch kind {
            case RawFrame.Kind.resetStream.rawValue where payload.count == 4: number(payload[0..<4])
            case RawFrame.Kind.goAway.rawValue where payload.count >= 8: number(payload[4..<8])
            default: nil
            }
        }
    }

    static let preface = Array("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".utf8)

    private let socket: TCPSocket
    private let tls: TLSSession
    private let poller: Poller
    private var buffer = [UInt8](repeating: 0, count: 65_536)
    private var unread: [UInt8] = []
    private(set) var frames: [Received] = []
    private(set) var isOver = false

    /// - Parameter greets: sends the preface and empty SETTINGS, and acknowledges the server's.
    init(port: Int, greets: Bool = true) throws {
        let identity = try TestIdentity.shared.get()
        tls = try TLSSession(client: TLSContext.client(trust: .file(identity.certificateFile), alpn: ["h2"]), serverName: "localhost")
        socket = try TCPSocket.connect(to: SocketAddress.resolve(host: "127.0.0.1", port: port)[0], timeout: .seconds(60))
        poller = try Poller()
        try poller.add(socket.descriptor, key: 1, interest: .read)
        while try tls.handshake() != .complete {
            try flush()
            try readSocket()
        }
        if greets {
            try send(Self.preface + RawFrame(kind: .settings).bytes + RawFrame(kind: .settings, flags: RawFrame.acknowledgement).bytes)
        }
    }

    func send(_ bytes: [UInt8]) throws {
        try tls.write(bytes.span)
        try flush()
    }

    func send(_ frames: [RawFrame]) throws { try send(frames.flatMap(\.bytes)) }

    /// Reads until a frame like this has come, or the connection is over.
    @discardableResult
    func wait(for isMeant: (Received) -> Bool) throws -> Received? {
        let deadline = ContinuousClock.now + .seconds(60)
        while true {
            if let found = frames.first(where: isMeant) { return found }
            if isOver { return nil }
            guard ContinuousClock.now < deadline else { throw PushClient.Failure(description: "nothing more came: \(frames)") }
            try readSocket()
            try readFrames()
        }
    }

    /// Whether the server still answers a PING on this connection.
    func isAlive() throws -> Bool {
        try send([RawFrame(kind: .ping, payload: Array("strictly".utf8))])
        return try wait { $0.kind == RawFrame.Kind.ping.rawValue && $0.flags == RawFrame.acknowledgement } != nil
    }

    /// Returns when the server has read everything that was sent before, or has ended the connection.
    /// - Parameter name: Eight characters, others each time.
    func roundTrip(_ name: String) throws {
        try send([RawFrame(kind: .ping, payload: Array(name.utf8))])
        try wait { $0.kind == RawFrame.Kind.ping.rawValue && $0.payload == Array(name.utf8) }
    }

    /// - Parameter abruptly: With a TCP reset.
    func close(abruptly: Bool) throws {
        if abruptly { try socket.resetOnClose() }
        socket.close()
    }

    private func readFrames() throws {
        // The last bytes of a broken connection may end in the middle of a record.
        do { if case .closed = try tls.read(into: &unread) { isOver = true } } catch { isOver = true }
        while unread.count >= 9 {
            let length = Int(number(unread[0..<3]))
            guard unread.count >= 9 + length else { return }
            frames.append(
                Received(
                    kind: unread[3], flags: unread[4], stream: number(unread[5..<9]) & 0x7fff_ffff, payload: Array(unread[9..<9 + length])))
            unread.removeFirst(9 + length)
        }
    }

    private func readSocket() throws {
        _ = try poller.wait(timeout: .seconds(1))
        do throws(SystemError) {
            switch try socket.read(into: &buffer) {
            case .wouldBlock: return
            case .endOfStream: isOver = true
            case .bytes(let count):
                let arrived = Array(buffer.prefix(count))
                tls.receive(arrived.span)
            }
        } catch {
            isOver = true
        }
    }

    private func flush() throws {
        while !isOver, tls.pendingOutput > 0 {
            do throws(SystemError) {
                try tls.withOutput { bytes throws(SystemError) in
                    if case .bytes(let count) = try socket.write(bytes) { count } else { 0 }
                }
            } catch {
                // The server has closed. Its earlier bytes are still to be read.
                return
            }
        }
    }
}

private func number(_ bytes: some Sequence<UInt8>) -> UInt32 {
    bytes.reduce(0) { $0 << 8 | UInt32($1) }
}
