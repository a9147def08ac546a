/// Reads `array_send`'s format: see ``PostgresValue/appendBinary(to:)``.
struct BinaryArrayReader {
    let elementType: PostgresType
    let count: Int
    private let bytes: UnsafeRawBufferPointer
    /// The place of the next element's length.
    private var place: Int

    /// nil when the bytes are no array of at most one dimension.
    init?(_ bytes: UnsafeRawBufferPointer) {
        self.bytes = bytes
        guard let dimensions = Self.integer(bytes, at: 0), let oid = Self.integer(bytes, at: 8), dimensions == 0 || dimensions == 1 else {
            return nil
        }
        elementType = PostgresType(oid: UInt32(bitPattern: oid))
        place = 20
        guard dimensions == 1 else {
            count = 0
            return
        }
        guard let length = Self.integer(bytes, at: 12), length >= 0, Self.integer(bytes, at: 16) != nil else { return nil }
        count = Int(length)
    }

    /// nil when the bytes end early, or an element has not the format of its type.
    mutating func elements<T: BinaryDecodable>() -> [T?]? {
        var values: [T?] = []
        values.reserveCapacity(Swift.min(count, bytes.count / 4))
        for _ in 0..<count {
            guard let element = next() else { return nil }
            guard let range = element else {
                values.append(nil)
                continue
            }
            guard let value = T(binary: UnsafeRawBufferPointer(rebasing: bytes[range]), type: elementType) else { return nil }
            values.append(value)
        }
        return values
    }

    /// Reads the elements if none is NULL; nil if one is.
    mutating func present<T: BinaryDecodable>() -> [T]? {
        var values: [T] = []
        values.reserveCapacity(Swift.min(count, bytes.count / 4))
        for _ in 0..<count {
            guard let element = next(), let range = element,
                let value = T(binary: UnsafeRawBufferPointer(rebasing: bytes[range]), type: elementType)
            else { return nil }
            values.append(value)
        }
        return values
    }

    /// The places of the elements among the array's bytes; nil if one is NULL.
    mutating func ranges() -> [Range<Int>]? {
        var ranges: [Range<Int>] = []
        ranges.reserveCapacity(Swift.min(count, bytes.count / 4))
        for _ in 0..<count {
            guard let element = next(), let range = element else { return nil }
            ranges.append(range)
        }
        return ranges
    }

    /// - Returns: nil if the bytes end early; for a NULL, no range.
    private mutating func next() -> Range<Int>?? {
        guard let length = Self.integer(bytes, at: place) else { return nil }
        place += 4
        if length == -1 { return .some(nil) }
        guard length >= 0, bytes.count - place >= Int(length) else { return nil }
        defer { place += Int(length) }
        return place..<place + Int(length)
    }

    private static func integer(_ bytes: UnsafeRawBufferPointer, at place: Int) -> Int32? {
        guard bytes.count - place >= 4 else { return nil }
        return Int32(bigEndian: bytes.loadUnaligned(fromByteOffset: place, as: Int32.self))
    }
}
