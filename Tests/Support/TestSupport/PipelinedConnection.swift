package import SystemIO

/// One HTTP/1.1 connection of a load. Its owner may write several requests at once, before it has read an answer (RFC 9112 section 9.3.2,
/// pipelining), and the answers come in the order of the requests. It belongs to the thread of its poller and closes when it is released.
package final class PipelinedConnection {
    private let socket: TCPSocket
    private let key: UInt64
    private let poller: Poller
    private var reader: HTTPAnswerReader
    /// Bytes of requests for which the socket had no room.
    private var unwritten: [UInt8] = []

    /// Connects, and has the poller report answers.
    /// - Parameters:
    ///   - key: The poller's events have it.
    ///   - timeout: For the connection to be made; the thread waits so long.
    package init(
        to address: SocketAddress, key: UInt64, _ poller: Poller, keepsBodies: Bool, timeout: Duration = .seconds(10)
    ) throws(SystemError) {
        socket = try TCPSocket.connect(to: address, timeout: timeout)
        (self.key, self.poller) = (key, poller)
        reader = HTTPAnswerReader(keepsBody: keepsBodies)
        try poller.add(socket.descriptor, key: key, interest: .read)
    }

    deinit { socket.close() }

    /// Writes whole requests. If the socket has no room for all bytes, the poller reports when it has, and ``resume()`` writes the rest.
    package func send(_ requests: [UInt8]) throws(SystemError) {
        guard unwritten.isEmpty else { return unwritten += requests }
        let count = try write(requests)
        guard count < requests.count else { return }
        unwritten = Array(requests[count...])
        try poller.modify(socket.descriptor, key: key, interest: [.read, .write])
    }

    /// Writes what the socket had no room for. Call it when the poller reports that the socket is writable.
    package func resume() throws(SystemError) {
        guard !unwritten.isEmpty else { return }
        unwritten.removeFirst(try write(unwritten))
        if unwritten.isEmpty { try poller.modify(socket.descriptor, key: key, interest: .read) }
    }

    private func write(_ bytes: [UInt8]) throws(SystemError) -> Int {
        switch try socket.write(bytes.span) {
        case .bytes(let count): count
        case .wouldBlock, .endOfStream: 0
        }
    }

    /// Reads what has come, at most the buffer's size, and calls `answered` for each answer that is complete.
    /// - Throws: ``HTTPAnswerReader/Fault`` if the service breaks HTTP or has closed the connection, `SystemError`, or what `answered`
    ///   throws.
    package func receive(_ buffer: inout [UInt8], _ answered: (HTTPAnswerReader) throws -> Void) throws {
        switch try socket.read(into: &buffer) {
        case .wouldBlock: return
        case .endOfStream: throw HTTPAnswerReader.Fault("the service closed a connection")
        case .bytes(let count):
            var rest = buffer[..<count]
            while let used = try reader.receive(rest) {
                try answered(reader)
                rest = rest.dropFirst(used)
            }
        }
    }
}
