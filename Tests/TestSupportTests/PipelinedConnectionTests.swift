import SystemIO
import TestSupport
import Testing

@Suite("The load reads pipelined answers whole, in whatever pieces they come", .timeLimit(.minutes(5)))
struct PipelinedConnectionTests {
    private struct Answer: Equatable {
        var status: Int
        var retryAfter: Int?
        var body = ""
    }

    private static let wire = Array(
        """
        HTTP/1.1 202 Accepted\r\nContent-Type: application/json\r\nContent-Length: 7\r\n\r\n{"a":1}\
        HTTP/1.1 429 Too Many Requests\r\nretry-after: 17\r\ncontent-length: 2\r\n\r\n{}\
        HTTP/1.1 204 No Content\r\n\r\n\
        HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\nb\r\nHTTP/1.1 ok\r\n0\r\n\r\n\
        HTTP/1.1 503 Service Unavailable\r\nRETRY-AFTER:1\r\nCONTENT-LENGTH:0\r\n\r\n
        """.utf8)
    private static let answers = [
        Answer(status: 202, body: #"{"a":1}"#), Answer(status: 429, retryAfter: 17, body: "{}"), Answer(status: 204),
        Answer(status: 200, body: "abcHTTP/1.1 ok"), Answer(status: 503, retryAfter: 1),
    ]

    private func read(_ pieces: [ArraySlice<UInt8>], keepsBody: Bool = true) throws -> [Answer] {
        var reader = HTTPAnswerReader(keepsBody: keepsBody)
        var answers: [Answer] = []
        for piece in pieces {
            var rest = piece
            while let used = try reader.receive(rest) {
                answers.append(
                    Answer(status: reader.status, retryAfter: reader.retryAfter, body: String(decoding: reader.body, as: UTF8.self)))
                rest = rest.dropFirst(used)
            }
        }
        return answers
    }

    @Test("All answers are read in their order, wherever the bytes are parted") func pieces() throws {
        let wire = Self.wire[...]
        #expect(try read([wire]) == Self.answers)
        #expect(try read(wire.indices.map { wire[$0...$0] }) == Self.answers)
        for place in wire.indices { #expect(try read([wire[..<place], wire[place...]]) == Self.answers, "\(place)") }
        let withoutBodies = Self.answers.map { Answer(status: $0.status, retryAfter: $0.retryAfter) }
        #expect(try read([wire], keepsBody: false) == withoutBodies)
    }

    @Test(
        "Bytes that are no answer are an error",
        arguments: ["HTTP/1.1 abc OK\r\ncontent-length: 0\r\n\r\n", "HTTP/1.1 200 OK\r\nserver: x\r\n\r\n", "no\r\n\r\n"])
    func nonsense(_ text: String) throws {
        #expect(throws: HTTPAnswerReader.Fault.self) { try read([Array(text.utf8)[...]]) }
    }

    @Test("Requests for which the socket has no room follow when it has, and their answers come") func resuming() async throws {
        try await onOwnThread {
            let listener = try TCPListener(host: "127.0.0.1", port: 0)
            let poller = try Poller(capacity: 2)
            try poller.add(listener.descriptor, key: 1, interest: .read)
            let connection = try PipelinedConnection(to: listener.address, key: 7, poller, keepsBodies: true)
            #expect(try poller.wait(timeout: .seconds(60)).map(\.key) == [1])
            let server = try #require(try listener.accept())
            try poller.remove(listener.descriptor)
            var requests: [UInt8] = Array(0...250)
            // More than both sockets hold.
            while requests.count < 16 << 20 { requests += requests }
            try connection.send(Array(requests.dropLast()))
            try connection.send([requests[requests.count - 1]])
            var received: [UInt8] = []
            var buffer = [UInt8](repeating: 0, count: 1 << 20)
            while received.count < requests.count {
                while case .bytes(let count) = try server.read(into: &buffer) { received += buffer[..<count] }
                for event in try poller.wait(timeout: .milliseconds(1)) where event.isWritable { try connection.resume() }
            }
            #expect(received == requests)
            // The poller reports a socket with room only as long as there is something to write.
            #expect(try poller.wait(timeout: .zero).isEmpty)
            let wire = Self.wire
            _ = try server.write(wire.span)
            var statuses: [Int] = []
            while statuses.count < Self.answers.count {
                guard let event = try poller.wait(timeout: .seconds(60)).first, event.isReadable else { break }
                try connection.receive(&buffer) { statuses.append($0.status) }
            }
            #expect(statuses == Self.answers.map(\.status))
            server.close()
            #expect(try poller.wait(timeout: .seconds(60)).map(\.isReadable) == [true])
            #expect(throws: HTTPAnswerReader.Fault.self) { try connection.receive(&buffer) { _ in } }
        }
    }
}
