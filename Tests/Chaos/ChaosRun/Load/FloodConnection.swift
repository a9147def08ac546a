import PushModel
import SystemIO

/// One connection of a flood, with one request at a time. It reads only the parts of an answer that the ledger needs.
final class FloodConnection {
    struct Answer {
        let status: Int
        let retryAfter: Int?
        let notification: PushID?
    }

    /// The request in flight.
    struct Question {
        let app: Int
        let user: String
        let marker: Int64
        let sentAt: Int64
    }

    /// The index of the token service.
    let service: Int
    let key: UInt64
    var question: Question?
    private(set) var socket: TCPSocket?
    private var received: [UInt8] = []

    init(key: UInt64, service: Int) { (self.key, self.service) = (key, service) }

    func connect(to address: SocketAddress, _ poller: Poller) throws {
        let socket = try TCPSocket.connect(to: address, timeout: .seconds(2))
        try poller.add(socket.descriptor, key: key, interest: .read)
        self.socket = socket
        received.removeAll(keepingCapacity: true)
    }

    func close(_ poller: Poller) {
        if let socket {
            try? poller.remove(socket.descriptor)  // it goes with the descriptor anyway
            socket.close()
        }
        socket = nil
    }

    /// - Returns: whether the socket took all of it. A request is far smaller than the socket's buffer.
    func send(_ bytes: [UInt8]) -> Bool {
        guard let socket, case .bytes(let count)? = try? socket.write(bytes.span) else { return false }
        return count == bytes.count
    }

    /// Takes what has come.
    /// - Returns: the answer once it is whole; nil as long as it is not.
    /// - Throws: where the connection is over.
    func receive(_ buffer: inout [UInt8]) throws -> Answer? {
        guard let socket else { return nil }
        switch try socket.read(into: &buffer) {
        case .wouldBlock: return nil
        case .endOfStream: throw ChaosError("the connection was closed")
        case .bytes(let count): received.append(contentsOf: buffer[..<count])
        }
        guard let head = Self.find("\r\n\r\n", in: received[...]), received.count >= 12 else { return nil }
        let length = Self.number(of: "content-length", in: received[..<head]) ?? 0
        guard received.count >= head + 4 + length else { return nil }
        defer { received.removeAll(keepingCapacity: true) }
        let status = received[9..<12].reduce(0) { $0 * 10 + Int($1) - 48 }
        let body = received[(head + 4)...]
        var id: PushID?
        if status == 202, let place = Self.find(#""id":""#, in: body) { id = PushID(ascii: body[(place + 6)...].prefix(36)) }
        return Answer(status: status, retryAfter: Self.number(of: "retry-after", in: received[..<head]), notification: id)
    }

    /// - Returns: the position of its beginning.
    private static func find(_ text: StaticString, in bytes: ArraySlice<UInt8>) -> Int? {
        let wanted = Array(text.description.utf8)
        guard let first = wanted.first, bytes.count >= wanted.count else { return nil }
        for place in bytes.startIndex...(bytes.endIndex - wanted.count) where bytes[place] == first {
            if bytes[place..<place + wanted.count].elementsEqual(wanted) { return place }
        }
        return nil
    }

    /// A header field whose value is a number. Names are compared without regard to case.
    private static func number(of name: StaticString, in head: ArraySlice<UInt8>) -> Int? {
        let wanted = Array(name.description.utf8) + [UInt8(ascii: ":")]
        for line in head.split(separator: UInt8(ascii: "\n")) where line.count > wanted.count {
            guard zip(line, wanted).allSatisfy({ $0 | 0x20 == $1 | 0x20 }) else { continue }
            return Int(String(decoding: line.dropFirst(wanted.count), as: UTF8.self).filter(\.isNumber))
        }
        return nil
    }
}
