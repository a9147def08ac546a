import Glibc

/// Headers that arrived, in order, in one flat byte buffer: no String until a caller wants one. Names are lower case (RFC 9113 section
/// 8.2).
package struct HeaderList: Sendable, Equatable {
    /// Each header's bytes: two bytes length of the name, two of the value, both little endian, then name and value.
    private var bytes: [UInt8] = []
    package private(set) var count = 0

    package init() {}

    package init(_ headers: KeyValuePairs<String, String>) {
        for (name, value) in headers { append(Array(name.utf8), Array(value.utf8)) }
    }

    package var isEmpty: Bool { count == 0 }

    /// The first value with this name.
    package subscript(_ name: StaticString) -> String? {
        value(of: name).map { String(decoding: $0, as: UTF8.self) }
    }

    /// The first value with this name, without a copy.
    package func value(of name: StaticString) -> ArraySlice<UInt8>? {
        range(of: name).map { bytes[$0] }
    }

    /// Whether the first value with this name consists of exactly these bytes. For comparing with the last request's value.
    package func has(_ name: StaticString, equalTo value: [UInt8]) -> Bool {
        guard let range = range(of: name), range.count == value.count else { return false }
        return bytes.withUnsafeBytes { all in
            value.withUnsafeBytes { value in
                guard let left = all.baseAddress, let right = value.baseAddress else { return value.isEmpty }
                return memcmp(left + range.lowerBound, right, value.count) == 0
            }
        }
    }

    /// Lends every header in order.
    package func forEach(_ body: (_ name: Span<UInt8>, _ value: Span<UInt8>) -> Void) {
        let span = bytes.span
        bytes.withUnsafeBytes { all in
            forEachRange(all) { name, value in
                body(span.extracting(name), span.extracting(value))
                return true
            }
        }
    }

    private func range(of name: StaticString) -> Range<Int>? {
        var found: Range<Int>?
        bytes.withUnsafeBytes { all in
            forEachRange(all) { header, value in
                guard matches(all, header, name) else { return true }
                found = value
                return false
            }
        }
        return found
    }

    @inline(__always)
    private func matches(_ all: UnsafeRawBufferPointer, _ range: Range<Int>, _ name: StaticString) -> Bool {
        guard range.count == name.utf8CodeUnitCount, let base = all.baseAddress else { return false }
        return memcmp(base + range.lowerBound, name.utf8Start, range.count) == 0
    }

    /// Goes through the headers until `body` returns false.
    @inline(__always)
    private func forEachRange(_ all: UnsafeRawBufferPointer, _ body: (Range<Int>, Range<Int>) -> Bool) {
        var position = 0
        while position + 4 <= all.count {
            let nameEnd = position + 4 + Int(all[position]) + Int(all[position + 1]) << 8
            let valueEnd = nameEnd + Int(all[position + 2]) + Int(all[position + 3]) << 8
            guard body(position + 4..<nameEnd, nameEnd..<valueEnd) else { return }
            position = valueEnd
        }
    }

    /// False, and nothing is added, when a name or value has 64 KiB or more.
    @discardableResult
    mutating func append(_ name: UnsafeBufferPointer<UInt8>, _ value: UnsafeBufferPointer<UInt8>) -> Bool {
        guard name.count <= 0xffff, value.count <= 0xffff else { return false }
        // One growth of the buffer for all four parts: this runs for every header of every request.
        bytes.append(addingCapacity: 4 + name.count + value.count) { output in
            output.withUnsafeMutableBufferPointer { buffer, initialized in
                guard let start = buffer.baseAddress.map({ $0 + initialized }) else { return }
                start[0] = UInt8(truncatingIfNeeded: name.count)
                start[1] = UInt8(truncatingIfNeeded: name.count >> 8)
                start[2] = UInt8(truncatingIfNeeded: value.count)
                start[3] = UInt8(truncatingIfNeeded: value.count >> 8)
                // An empty part has no address.
                if let bytes = name.baseAddress { memcpy(start + 4, bytes, name.count) }
                if let bytes = value.baseAddress { memcpy(start + 4 + name.count, bytes, value.count) }
                initialized += 4 + name.count + value.count
            }
        }
        count += 1
        return true
    }

    /// Appends names and values that no peer's HTTP/2 would let through, for tests.
    package mutating func append(_ name: [UInt8], _ value: [UInt8]) {
        name.withUnsafeBufferPointer { name in value.withUnsafeBufferPointer { value in _ = append(name, value) } }
    }

    mutating func removeAll() {
        bytes.removeAll(keepingCapacity: true)
        count = 0
    }
}

extension HeaderList: CustomStringConvertible {
    /// The names only: values may be secrets.
    package var description: String {
        var names: [String] = []
        forEach { name, _ in names.append(name.withUnsafeBufferPointer { String(decoding: $0, as: UTF8.self) }) }
        return names.joined(separator: ", ")
    }
}
