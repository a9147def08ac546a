/// Checks that the client of one connection sends only TLS records (RFC 8446 section 5.1). It reads the five bytes at the beginning of each
/// record.
struct TLSWatch {
    private static let postgresRequest: [UInt8] = [0, 0, 0, 8, 4, 210, 22, 47]
    /// The longest allowed record, encrypted (RFC 5246 section 6.2.3).
    private static let longest = 16_384 + 2048

    /// The exact bytes that must come next.
    private var opening: ArraySlice<UInt8>
    private var head: [UInt8] = []
    /// Bytes left of the record that has begun.
    private var rest = 0
    /// The client has sent bytes that are not TLS.
    private(set) var isInClear = false

    init(_ opening: FaultProxy.Opening) { self.opening = opening == .postgres ? Self.postgresRequest[...] : [] }

    mutating func see(_ bytes: ArraySlice<UInt8>) {
        var bytes = bytes
        while let byte = bytes.first, !isInClear {
            if rest > 0 {
                let count = min(rest, bytes.count)
                rest -= count
                bytes = bytes.dropFirst(count)
                continue
            }
            bytes = bytes.dropFirst()
            if let expected = opening.popFirst() {
                isInClear = byte != expected
            } else {
                take(byte)
            }
        }
    }

    private mutating func take(_ byte: UInt8) {
        head.append(byte)
        // Type and version are known before the length is.
        isInClear = !(20...23).contains(head[0]) || head.count > 1 && head[1] != 3
        guard head.count == 5 else { return }
        rest = Int(head[3]) << 8 | Int(head[4])
        if rest > Self.longest { isInClear = true }
        head.removeAll(keepingCapacity: true)
    }
}
