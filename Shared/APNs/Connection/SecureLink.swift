import OpenSSL
import SystemIO

/// One TLS connection over one socket: plaintext in and out, nothing blocks. Belongs to one event loop.
final class SecureLink {
    enum ReadResult: Equatable {
        /// The buffer holds all that arrived.
        case open
        case closed(String)
    }

    let socket: TCPSocket
    let address: SocketAddress
    private let session: TLSSession
    private let buffers: LoopBuffers

    init(_ socket: TCPSocket, _ session: TLSSession, address: SocketAddress, _ buffers: LoopBuffers) {
        self.socket = socket
        self.session = session
        self.address = address
        self.buffers = buffers
    }

    /// Goes on with the handshake as far as possible without waiting. Sends no request before APNs has agreed to HTTP/2.
    /// - Returns: the event to wait for; nil once the handshake is through.
    func handshake() throws -> Poller.Interest? {
        while true {
            let result: TLSSession.HandshakeResult
            do {
                result = try session.handshake()
            } catch {
                // The alert with the reason for the peer; it need not arrive.
                _ = try flush()
                throw error
            }
            guard try flush() else { return [.read, .write] }
            if result == .complete {
                guard session.negotiatedALPN == "h2" else { throw LinkError.noHTTP2 }
                return nil
            }
            switch try receive() {
            case .bytes: continue
            case .wouldBlock: return .read
            case .endOfStream: throw LinkError.endedInHandshake
            }
        }
    }

    /// Reads all available bytes, and appends the plaintext.
    func read(into plaintext: inout [UInt8]) throws -> ReadResult {
        while true {
            let result = try receive()
            while true {
                let before = plaintext.count
                switch try session.read(into: &plaintext) {
                case .bytes: if plaintext.count - before >= 65_536 { continue }
                case .incomplete: break
                case .closed: return .closed("close_notify")
                }
                break
            }
            switch result {
            case .bytes(let count) where count == buffers.ciphertext.count && plaintext.count < 1 << 20: continue
            case .bytes, .wouldBlock: return .open
            case .endOfStream: return .closed("end_of_stream")
            }
        }
    }

    private func receive() throws(SystemError) -> IOResult {
        let result = try socket.read(into: &buffers.ciphertext)
        if case .bytes(let count) = result {
            // A span of a class's property would end with the access to it.
            let bytes = buffers.ciphertext
            session.receive(bytes.span.extracting(first: count))
        }
        return result
    }

    func write(_ plaintext: [UInt8]) throws(TLSError) {
        try session.write(plaintext.span)
    }

    /// Sends pending bytes as far as the kernel takes them.
    /// - Parameter noting: called when the kernel has taken at least one byte.
    /// - Returns: whether nothing is left.
    func flush(noting taken: () -> Void = {}) throws(SystemError) -> Bool {
        while session.pendingOutput > 0 {
            var isBlocked = false
            try session.withOutput { bytes throws(SystemError) in
                guard case .bytes(let count) = try socket.write(bytes) else {
                    isBlocked = true
                    return 0
                }
                taken()
                return count
            }
            if isBlocked { return false }
        }
        return true
    }

    /// Sends what is pending and a close alert, as far as that is possible without waiting.
    /// - Parameter noting: called when the kernel has taken at least one byte.
    func close(noting taken: () -> Void = {}) {
        session.shutdown()
        do { _ = try flush(noting: taken) } catch { /* The peer has left already. */  }
        socket.close()
    }
}

/// Why a link cannot be used although TCP connected.
enum LinkError: Error, Equatable, CustomStringConvertible {
    case endedInHandshake
    case handshakeTimeout
    case noHTTP2

    var description: String {
        switch self {
        case .endedInHandshake: "the peer closed the connection during the TLS handshake"
        case .handshakeTimeout: "the TLS handshake took too long"
        case .noHTTP2: "the peer did not agree to HTTP/2 (ALPN h2)"
        }
    }
}
