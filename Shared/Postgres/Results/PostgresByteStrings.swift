/// The elements of a `bytea[]`, side by side in one piece of memory: for thousands of elements, an array each would cost more than all
/// other work on them.
package struct PostgresByteStrings: Sendable {
    private let bytes: [UInt8]
    private let ranges: [Range<Int>]

    package init() { (bytes, ranges) = ([], []) }

    /// nil when the bytes are no flat array of `bytea` without NULLs.
    init?(_ bytes: UnsafeRawBufferPointer) {
        guard var reader = BinaryArrayReader(bytes), reader.elementType == .bytes, let ranges = reader.ranges() else { return nil }
        self.bytes = Array(bytes)
        self.ranges = ranges
    }

    package var count: Int { ranges.count }

    /// Like an array, traps outside of 0..<``count``.
    package subscript(index: Int) -> ArraySlice<UInt8> { bytes[ranges[index]] }
}
