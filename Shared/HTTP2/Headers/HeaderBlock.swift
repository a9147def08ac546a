internal import CNGHTTP2

/// Whether a header goes into the peer's compression table (RFC 7541 section 6.2).
package enum HeaderIndexing: Sendable {
    /// Name and value are remembered: the second time costs a byte or two. For values that stay the same.
    case incremental
    /// No value is remembered. For values that change every time, once their name is in the table (docs/apns.md, Headers).
    case withoutIndexing
}

/// Headers to send, prepared once and reused: one flat byte buffer, so that a submit needs neither a String nor an allocation.
///
/// Names must be lower case, and pseudo-headers (`:path`) come first (RFC 9113 section 8.3). A value that changes with each request is
/// either replaced in place (`setValue`), or appended after a mark and cut off again (`truncate`).
package struct HeaderBlock: Sendable {
    struct Field: Sendable {
        /// The name if it is the program's own text, which nghttp2 may refer to instead of copying it; else it is in `bytes`.
        var fixedName: StaticString?
        var name: Range<Int>
        var value: Range<Int>
        /// The end of the room in which the value may grow in place.
        var valueCapacityEnd: Int
        var flags: UInt8
    }

    /// A place in a block to `truncate` to.
    package struct Mark: Sendable {
        fileprivate let fields: Int
    }

    private(set) var bytes: [UInt8] = []
    private(set) var fields: [Field] = []

    package init() {}

    /// How many headers there are.
    package var count: Int { fields.count }

    /// - Returns: the header's index, for `setValue` and `setIndexing`.
    @discardableResult
    package mutating func append(_ name: String, _ value: String, indexing: HeaderIndexing = .incremental) -> Int {
        append(name, value.utf8, indexing: indexing)
    }

    @discardableResult
    package mutating func append(_ name: String, _ value: some Collection<UInt8>, indexing: HeaderIndexing = .incremental) -> Int {
        let start = bytes.count
        bytes.append(contentsOf: name.utf8)
        return append(nil, start..<bytes.count, value, indexing)
    }

    /// Appends a field with a name from the program's text, as most are: a submit need not copy it.
    @discardableResult
    package mutating func append(fixed name: StaticString, _ value: String, indexing: HeaderIndexing = .incremental) -> Int {
        append(name, 0..<0, value.utf8, indexing)
    }

    @discardableResult
    package mutating func append(
        fixed name: StaticString, _ value: some Collection<UInt8>, indexing: HeaderIndexing = .incremental
    ) -> Int {
        append(name, 0..<0, value, indexing)
    }

    private mutating func append(
        _ fixedName: StaticString?, _ name: Range<Int>, _ value: some Collection<UInt8>, _ indexing: HeaderIndexing
    ) -> Int {
        let start = bytes.count
        bytes.append(contentsOf: value)
        let end = bytes.count
        fields.append(Field(fixedName: fixedName, name: name, value: start..<end, valueCapacityEnd: end, flags: indexing.flags))
        return fields.count - 1
    }

    /// How long a value is.
    package func valueCount(at index: Int) -> Int { fields[index].value.count }

    /// Lends a value to be overwritten in place, with the same length: the block's bytes, and the value's start in them.
    package mutating func rewriteValue(at index: Int, _ body: (inout MutableSpan<UInt8>, Int) -> Void) {
        let start = fields[index].value.lowerBound
        var text = bytes.mutableSpan
        body(&text, start)
    }

    /// Replaces a value, in place if it fits: values of one length (paths with a token, `apns-id`) never allocate.
    package mutating func setValue(_ value: [UInt8], at index: Int) {
        var field = fields[index]
        let start = field.value.lowerBound
        if start + value.count <= field.valueCapacityEnd {
            bytes.withUnsafeMutableBufferPointer { buffer in
                value.withUnsafeBufferPointer { value in
                    guard let target = buffer.baseAddress, let source = value.baseAddress else { return }
                    (target + start).update(from: source, count: value.count)
                }
            }
            field.value = start..<start + value.count
        } else {
            // Moves to the end; the room grows with it, so that the space left behind stays bounded.
            let start = bytes.count
            bytes.append(contentsOf: value)
            field.value = start..<bytes.count
            bytes.append(contentsOf: repeatElement(0, count: value.count))
            field.valueCapacityEnd = bytes.count
        }
        fields[index] = field
    }

    package mutating func setValue(_ value: String, at index: Int) {
        setValue(Array(value.utf8), at: index)
    }

    package mutating func setIndexing(_ indexing: HeaderIndexing, at index: Int) {
        fields[index].flags = indexing.flags
    }

    package var mark: Mark { Mark(fields: fields.count) }

    /// Cuts off the headers that were appended since.
    package mutating func truncate(to mark: Mark) {
        guard mark.fields < fields.count else { return }
        fields.removeSubrange(mark.fields...)
        // A value that was replaced by a longer one may be behind later headers.
        let inUse = fields.reduce(0) { max($0, $1.valueCapacityEnd) }
        bytes.removeSubrange(inUse...)
    }
}

extension HeaderIndexing {
    var flags: UInt8 {
        switch self {
        case .incremental: UInt8(NGHTTP2_NV_FLAG_NONE.rawValue)
        case .withoutIndexing: UInt8(NGHTTP2_NV_FLAG_NO_INDEX.rawValue)
        }
    }
}

/// The `nghttp2_nv` array of one submit, kept between submits. nghttp2 copies values, and names
/// that are not the program's own text, before the call returns.
final class HeaderArray {
    private var storage: UnsafeMutablePointer<nghttp2_nv>
    private var capacity = 32
    private static let keepsName = UInt8(NGHTTP2_NV_FLAG_NO_COPY_NAME.rawValue)

    init() { storage = .allocate(capacity: capacity) }

    deinit { storage.deallocate() }

    /// Calls `body` with the array, its count, and a pointer to `source`, all valid only inside.
    func with<R>(
        _ block: borrowing HeaderBlock, _ source: UnsafePointer<nghttp2_data_provider>,
        _ body: (UnsafePointer<nghttp2_nv>, Int, UnsafePointer<nghttp2_data_provider>) -> R
    ) -> R {
        let count = block.count
        if count > capacity { grow(to: count) }
        return block.bytes.withUnsafeBufferPointer { bytes in
            // nghttp2's type wants mutable pointers, but it only reads. An empty block has no base and no fields either.
            if let base = bytes.baseAddress.map({ UnsafeMutablePointer(mutating: $0) }) {
                block.fields.withUnsafeBufferPointer { fields in
                    for index in 0..<count {
                        let field = fields[index]
                        if let name = field.fixedName {
                            // The program's text outlives every session.
                            storage[index] = nghttp2_nv(
                                name: UnsafeMutablePointer(mutating: name.utf8Start), value: base + field.value.lowerBound,
                                namelen: name.utf8CodeUnitCount, valuelen: field.value.count, flags: field.flags | Self.keepsName)
                        } else {
                            storage[index] = nghttp2_nv(
                                name: base + field.name.lowerBound, value: base + field.value.lowerBound, namelen: field.name.count,
                                valuelen: field.value.count, flags: field.flags)
                        }
                    }
                }
            }
            return body(storage, count, source)
        }
    }

    private func grow(to count: Int) {
        storage.deallocate()
        capacity = count * 2
        storage = .allocate(capacity: capacity)
    }
}
