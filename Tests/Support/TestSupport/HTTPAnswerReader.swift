/// Reads the answers that come over one HTTP/1.1 connection, one after another, also if their requests were pipelined.
///
/// It finds the end of a body by `content-length` or by chunks. It works on bytes only, because it runs once for every answer of a load.
package struct HTTPAnswerReader {
    /// The bytes are no HTTP that this reader knows.
    package struct Fault: Error, CustomStringConvertible {
        package let description: String

        package init(_ description: String) { self.description = description }
    }

    private enum Framing {
        /// So many bytes of the body are still to come.
        case remaining(Int)
        case chunked
    }

    package private(set) var status = 0
    /// In seconds; nil if the answer has no `retry-after`.
    package private(set) var retryAfter: Int?
    /// Empty if this reader keeps no bodies.
    package private(set) var body: [UInt8] = []
    private let keepsBody: Bool
    /// The beginning of a head, or chunks that are not whole yet.
    private var buffer: [UInt8] = []
    private var framing: Framing?

    package init(keepsBody: Bool) { self.keepsBody = keepsBody }

    /// Takes bytes up to the end of one answer, whose parts are this reader's properties until the next one begins.
    /// - Returns: how many of these bytes belong to the answer that they complete; nil if it is not complete, and all of them were taken.
    package mutating func receive(_ bytes: ArraySlice<UInt8>) throws(Fault) -> Int? {
        var rest = bytes
        if framing == nil {
            if buffer.isEmpty, let end = Self.headEnd(bytes) {
                try readHead(bytes[..<end])
                rest = bytes[end...]
            } else {
                let before = buffer.count
                buffer.append(contentsOf: bytes)
                guard let end = Self.headEnd(buffer[...]) else { return nil }
                try readHead(buffer[..<end])
                buffer.removeAll(keepingCapacity: true)
                rest = bytes.dropFirst(end - before)
            }
        }
        return try receiveBody(rest).map { bytes.count - rest.count + $0 }
    }

    /// - Returns: as ``receive(_:)``.
    private mutating func receiveBody(_ bytes: ArraySlice<UInt8>) throws(Fault) -> Int? {
        switch framing {
        case .remaining(let count):
            let taken = bytes.prefix(count)
            if keepsBody { body.append(contentsOf: taken) }
            framing = taken.count == count ? nil : .remaining(count - taken.count)
            return taken.count == count ? count : nil
        case .chunked:
            buffer.append(contentsOf: bytes)
            while let line = Self.lineEnd(buffer) {
                let size = Int(String(decoding: buffer[..<(line - 2)], as: UTF8.self), radix: 16)
                guard let size, size >= 0 else { throw Fault("an answer's chunk has no size") }
                guard buffer.count >= line + size + 2 else { return nil }
                if keepsBody { body.append(contentsOf: buffer[line..<(line + size)]) }
                buffer.removeFirst(line + size + 2)
                guard size == 0 else { continue }
                // The rest came with these bytes, because before them the answer was not complete.
                let left = buffer.count
                buffer.removeAll(keepingCapacity: true)
                framing = nil
                return bytes.count - left
            }
            return nil
        case nil: return nil
        }
    }

    private mutating func readHead(_ head: ArraySlice<UInt8>) throws(Fault) {
        let start = head.startIndex
        // "HTTP/1.1 200 OK"
        guard head.count >= 15, let code = Self.number(head[(start + 9)..<(start + 12)]) else { throw Fault("an answer has no status") }
        status = code
        retryAfter = nil
        body.removeAll(keepingCapacity: true)
        framing = code == 204 ? .remaining(0) : nil
        var line = start
        while line < head.endIndex, let end = head[line...].firstIndex(of: 13) {
            let text = head[line..<end]
            if let value = Self.value(of: "content-length:", in: text) {
                framing = Self.number(value).map { .remaining($0) }
            } else if let value = Self.value(of: "retry-after:", in: text) {
                retryAfter = Self.number(value)
            } else if Self.value(of: "transfer-encoding:", in: text)?.elementsEqual("chunked".utf8) == true {
                framing = .chunked
            }
            line = end + 2
        }
        if framing == nil { throw Fault("an answer has neither content-length nor chunks") }
    }

    /// The value of this line without the spaces before it; nil if the line has another name. Names are compared without regard to case.
    private static func value(of name: StaticString, in line: ArraySlice<UInt8>) -> ArraySlice<UInt8>? {
        let isIt = name.withUTF8Buffer { name in
            unsafe line.count >= name.count && zip(line, name).allSatisfy { $0 | 0x20 == $1 | 0x20 }
        }
        return isIt ? line.dropFirst(name.utf8CodeUnitCount).drop { $0 == 32 } : nil
    }

    private static func number(_ digits: ArraySlice<UInt8>) -> Int? {
        var number = 0
        for digit in digits {
            guard (48...57).contains(digit), number < 1 << 50 else { return nil }
            number = number * 10 + Int(digit) - 48
        }
        return digits.isEmpty ? nil : number
    }

    /// The place after the empty line.
    private static func headEnd(_ bytes: ArraySlice<UInt8>) -> Int? {
        var place = bytes.startIndex + 3
        while place < bytes.endIndex {
            if bytes[place] == 10, bytes[place - 1] == 13, bytes[place - 2] == 10, bytes[place - 3] == 13 { return place + 1 }
            place += 1
        }
        return nil
    }

    /// The place after the first line.
    private static func lineEnd(_ bytes: [UInt8]) -> Int? {
        var place = 1
        while place < bytes.count {
            if bytes[place] == 10, bytes[place - 1] == 13 { return place + 1 }
            place += 1
        }
        return nil
    }
}
