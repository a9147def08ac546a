import OpenSSL
import SystemIO

/// What a connection sends: TLS's bytes, in their order. It outlives its connection while the client is given time to read.
final class ConnectionOutput {
    private let socket: TCPSocket
    private let tls: TLSSession
    /// Bytes since the connection began.
    private var sent = 0
    var unsent = UnsentAnswers()

    init(_ socket: TCPSocket, _ tls: TLSSession) {
        self.socket = socket
        self.tls = tls
    }

    /// Bytes that wait to be sent.
    var pending: Int { tls.pendingOutput }

    /// Some of them may leave as soon as the socket takes them.
    var waitsForSocket: Bool { pending > 0 }

    /// - Parameter isWhole: nothing that was handed to HTTP/2 waits for its encryption.
    func noteEncrypted(isWhole: Bool) {
        if isWhole { unsent.noteEncrypted(end: sent + pending) }
    }

    /// Sends what may leave, as far as the socket takes it.
    func send() throws(SystemError) {
        var count = 0
        try tls.withOutput { bytes throws(SystemError) in
            if case .bytes(let taken) = try socket.write(bytes) { count = taken }
            return count
        }
        sent += count
        unsent.noteSent(sent)
    }
}
