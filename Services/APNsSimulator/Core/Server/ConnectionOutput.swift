import OpenSSL
import SystemIO

/// What a connection sends: TLS's bytes, in their order. It outlives its connection while the client is given time to read.
final class ConnectionOutput {
    private let socket: TCPSocket
    private let tls: TLSSession

    init(_ socket: TCPSocket, _ tls: TLSSession) {
        self.socket = socket
        self.tls = tls
    }

    /// Bytes that wait to be sent.
    var pending: Int { tls.pendingOutput }

    /// Some of them may leave as soon as the socket takes them.
    var waitsForSocket: Bool { pending > 0 }

    /// Sends what may leave, as far as the socket takes it.
    func send() throws(SystemError) {
        try tls.withOutput { bytes throws(SystemError) in
            switch try socket.write(bytes) {
            case .bytes(let count): count
            case .wouldBlock, .endOfStream: 0
            }
        }
    }
}
