import SystemIO

/// How long the end of a connection waits for its client to have read it, and the limits meanwhile.
package struct Lingering: Sendable {
    package var time = Duration.seconds(1)
    /// Dropped unread from one client.
    package var bytes = 4 << 20
    /// How many sockets linger at once, on one event loop. The oldest is closed for a new one.
    package var sockets = 1024
}

/// A connection that is over: sends the rest of its output, then TCP's FIN, and drops received bytes until the client ends it too. A socket
/// that is closed with bytes unread, or gets more, sends a reset, and then the client loses bytes that it has not read yet.
final class LingeringSocket {
    let socket: TCPSocket
    let output: ConnectionOutput
    let deadline: ContinuousClock.Instant
    private var allowance: Int
    private var hasSentEnd = false
    /// The client has ended its side.
    private var hasReadEnd: Bool
    private(set) var isOver = false
    private var interest: Poller.Interest?

    init(_ socket: TCPSocket, _ output: ConnectionOutput, hasReadEnd: Bool, bytes: Int, until deadline: ContinuousClock.Instant) {
        self.socket = socket
        self.output = output
        self.hasReadEnd = hasReadEnd
        self.deadline = deadline
        allowance = bytes
    }

    func proceed(_ scratch: inout ConnectionScratch) {
        do {
            try send()
            if !hasReadEnd { try drop(&scratch) }
            if hasSentEnd, hasReadEnd { isOver = true }
        } catch {
            // The client has gone without waiting for the end.
            isOver = true
        }
    }

    private func send() throws(SystemError) {
        guard !hasSentEnd else { return }
        try output.send()
        guard output.pending == 0 else { return }
        try socket.shutdownWriting()
        hasSentEnd = true
    }

    private func drop(_ scratch: inout ConnectionScratch) throws(SystemError) {
        switch try socket.read(into: &scratch.ciphertext) {
        case .wouldBlock: break
        case .endOfStream: hasReadEnd = true
        case .bytes(let count):
            allowance -= count
            if allowance < 0 { isOver = true }
        }
    }

    /// The events to watch the socket for, if they have changed.
    func takeChangedInterest() -> Poller.Interest? {
        var wanted: Poller.Interest = hasReadEnd ? [] : .read
        if output.waitsForSocket { wanted.insert(.write) }
        guard wanted != interest else { return nil }
        interest = wanted
        return wanted
    }
}

/// Buffers that the connections of one loop take turns with, so that an idle connection holds none.
struct ConnectionScratch {
    /// The most bytes that one read takes from a socket.
    static let readBytes = 65_536

    var ciphertext = [UInt8](repeating: 0, count: readBytes)
    var plaintext: [UInt8] = []
    var output: [UInt8] = []
}
