/// One request as it goes over the wire.
package struct HTTPRequest: Sendable {
    package let bytes: [UInt8]

    package init(_ method: String, _ path: String, key: String, body: String? = nil) {
        var text = "\(method) \(path) HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer \(key)\r\n"
        if let body { text += "content-type: application/json\r\ncontent-length: \(body.utf8.count)\r\n" }
        bytes = Array((text + "\r\n" + (body ?? "")).utf8)
    }

    /// The head alone, for a body that is written apart.
    package init(_ method: String, _ path: String, key: String, contentType: String, length: Int) {
        bytes = Array(
            "\(method) \(path) HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer \(key)\r\ncontent-type: \(contentType)\r\ncontent-length: \(length)\r\n\r\n"
                .utf8)
    }
}

/// Reads one answer at a time out of what a connection delivers: status, and the body's length by `content-length` or chunks.
package struct HTTPResponseReader {
    package private(set) var status = 0
    package private(set) var body: [UInt8] = []
    private var buffer: [UInt8] = []
    private var framing: Framing?
    /// Off where only the status counts.
    package let keepsBody: Bool

    private enum Framing {
        case remaining(Int)
        case chunked
    }

    package init(keepsBody: Bool) { self.keepsBody = keepsBody }

    /// - Returns: whether an answer is complete; the next one may begin then.
    package mutating func receive(_ bytes: ArraySlice<UInt8>) throws(BenchmarkError) -> Bool {
        if framing == nil, buffer.isEmpty, let end = Self.headEnd(bytes) {
            try readHead(bytes[..<end])
            return try receiveBody(bytes[end...])
        }
        if framing == nil {
            buffer.append(contentsOf: bytes)
            guard let end = Self.headEnd(buffer[...]) else { return false }
            try readHead(buffer[..<end])
            let rest = Array(buffer[end...])
            buffer.removeAll(keepingCapacity: true)
            return try receiveBody(rest[...])
        }
        return try receiveBody(bytes)
    }

    private mutating func receiveBody(_ bytes: ArraySlice<UInt8>) throws(BenchmarkError) -> Bool {
        switch framing {
        case .remaining(let count):
            if keepsBody { body.append(contentsOf: bytes) }
            guard bytes.count <= count else { throw BenchmarkError("more came than an answer's content-length") }
            framing = .remaining(count - bytes.count)
            guard count == bytes.count else { return false }
        case .chunked:
            buffer.append(contentsOf: bytes)
            while let line = Self.lineEnd(buffer, from: 0) {
                let size = Int(String(decoding: buffer[..<(line - 2)], as: UTF8.self), radix: 16)
                guard let size else { throw BenchmarkError("an answer's chunk has no size") }
                guard buffer.count >= line + size + 2 else { return false }
                if keepsBody { body.append(contentsOf: buffer[line..<(line + size)]) }
                buffer.removeFirst(line + size + 2)
                if size == 0 {
                    framing = nil
                    return true
                }
            }
            return false
        case nil: return false
        }
        framing = nil
        return true
    }

    package mutating func takeBody() -> [UInt8] {
        defer { body.removeAll(keepingCapacity: true) }
        return body
    }

    /// Bytes only: this runs once for every answer that is measured.
    private mutating func readHead(_ head: ArraySlice<UInt8>) throws(BenchmarkError) {
        let start = head.startIndex
        // "HTTP/1.1 200 OK"
        guard head.count >= 15, let code = Self.number(head[(start + 9)..<(start + 12)]) else {
            throw BenchmarkError("an answer has no status")
        }
        status = code
        framing = code == 204 ? .remaining(0) : nil
        var line = start
        while let end = head[line...].firstIndex(of: 13) {
            let text = head[line..<end]
            if Self.begins(text, with: "content-length:") {
                framing = Self.number(text[(line + 15)...].drop { $0 == 32 }).map { .remaining($0) }
            } else if Self.begins(text, with: "transfer-encoding: chunked") {
                framing = .chunked
            }
            line = end + 2
            if line >= head.endIndex { break }
        }
        if framing == nil { throw BenchmarkError("an answer has neither content-length nor chunks") }
    }

    private static func begins(_ line: ArraySlice<UInt8>, with name: StaticString) -> Bool {
        name.withUTF8Buffer { name in unsafe line.count >= name.count && zip(line, name).allSatisfy { $0 | 0x20 == $1 | 0x20 } }
    }

    private static func number(_ digits: ArraySlice<UInt8>) -> Int? {
        var number = 0
        for digit in digits {
            guard (48...57).contains(digit), number < 1 << 50 else { return nil }
            number = number * 10 + Int(digit) - 48
        }
        return digits.isEmpty ? nil : number
    }

    private static func headEnd(_ bytes: ArraySlice<UInt8>) -> Int? {
        var at = bytes.startIndex + 3
        while at < bytes.endIndex {
            if bytes[at] == 10, bytes[at - 1] == 13, bytes[at - 2] == 10, bytes[at - 3] == 13 { return at + 1 }
            at += 1
        }
        return nil
    }

    private static func lineEnd(_ bytes: [UInt8], from start: Int) -> Int? {
        var at = start + 1
        while at < bytes.count {
            if bytes[at] == 10, bytes[at - 1] == 13 { return at + 1 }
            at += 1
        }
        return nil
    }
}
