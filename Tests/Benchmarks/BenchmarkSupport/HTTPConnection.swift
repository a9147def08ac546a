package import SystemIO
import TestSupport

package struct HTTPAnswer {
    package let status: Int
    package let body: [UInt8]

    package func refusal(of what: String) -> BenchmarkError {
        BenchmarkError("the service refused \(what): \(status) \(String(decoding: body.suffix(600), as: UTF8.self))")
    }
}

/// One connection that is kept: a request may be written long before its answer is read.
package final class HTTPConnection {
    private let socket: TCPSocket
    private let poller: Poller
    private var reader = HTTPAnswerReader(keepsBody: true)
    private var buffer = [UInt8](repeating: 0, count: 65_536)

    package init(to address: SocketAddress) throws {
        socket = try TCPSocket.connect(to: address, timeout: .seconds(10))
        poller = try Poller(capacity: 1)
        try poller.add(socket.descriptor, key: 0, interest: .read)
    }

    deinit { socket.close() }

    /// For requests that fit the socket's buffer.
    package func send(_ request: HTTPRequest) throws {
        guard case .bytes(let count) = try socket.write(request.bytes.span.extracting(0..<request.bytes.count)),
            count == request.bytes.count
        else { throw BenchmarkError("a request did not fit the socket's buffer") }
    }

    package func receive(patience: Duration = .seconds(60)) throws -> HTTPAnswer {
        while true {
            guard try !poller.wait(timeout: patience).isEmpty else { throw BenchmarkError("no answer in time") }
            switch try socket.read(into: &buffer) {
            case .bytes(let count): if let answer = try completed(by: count) { return answer }
            case .endOfStream: throw BenchmarkError("a connection was closed")
            case .wouldBlock: break
            }
        }
    }

    /// The answer, if it has come.
    package func received() throws -> HTTPAnswer? {
        guard try !poller.wait(timeout: .zero).isEmpty else { return nil }
        switch try socket.read(into: &buffer) {
        case .bytes(let count): return try completed(by: count)
        case .endOfStream: throw BenchmarkError("a connection was closed")
        case .wouldBlock: return nil
        }
    }

    /// The answer, if the first bytes of the buffer complete it.
    private func completed(by count: Int) throws -> HTTPAnswer? {
        guard let used = try reader.receive(buffer[..<count]) else { return nil }
        guard used == count else { throw BenchmarkError("more came than one answer") }
        return HTTPAnswer(status: reader.status, body: reader.body)
    }

    package func call(_ request: HTTPRequest) throws -> HTTPAnswer {
        try send(request)
        return try receive()
    }

    /// Writes the parts while it reads the answer.
    package func exchange(_ parts: [[UInt8]], patience: Duration = .seconds(60)) throws -> HTTPAnswer {
        try poller.modify(socket.descriptor, key: 0, interest: [.read, .write])
        var part = 0
        var written = 0
        while true {
            guard let event = try poller.wait(timeout: patience).first else { throw BenchmarkError("no answer in time") }
            if event.isReadable {
                switch try socket.read(into: &buffer) {
                case .bytes(let count): if let answer = try completed(by: count) { return answer }
                case .endOfStream: throw BenchmarkError("the service closed the connection")
                case .wouldBlock: break
                }
            }
            guard event.isWritable, part < parts.count else { continue }
            let bytes = parts[part]
            if case .bytes(let count) = try socket.write(bytes.span.extracting(written..<bytes.count)) { written += count }
            if written == bytes.count { (part, written) = (part + 1, 0) }
            if part == parts.count { try poller.modify(socket.descriptor, key: 0, interest: .read) }
        }
    }
}
