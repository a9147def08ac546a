/// Reads `array_send`'s format: see ``PostgresValue/appendBinary(to:)``.
struct BinaryArrayReader {
    let elementType: PostgresType
    private let count: Int
    private var rest: Slice<UnsafeRawBufferPointer>

    /// nil when the bytes are no array of at most one dimension.
    init?(_ bytes: UnsafeRawBufferPointer) {
        rest = bytes[...]
        guard let dimensions = Self.integer(&rest), Self.integer(&rest) != nil, let oid = Self.integer(&rest),
            dimensions == 0 || dimensions == 1
        else { return nil }
        elementType = PostgresType(oid: UInt32(bitPattern: oid))
        guard dimensions == 1 else {
            count = 0
            return
        }
        guard let length = Self.integer(&rest), length >= 0, Self.integer(&rest) != nil else { return nil }
        count = Int(length)
    }

    /// nil when the bytes end early, or an element is not what its type says.
    mutating func elements<T: BinaryDecodable>() -> [T?]? {
        var values: [T?] = []
        values.reserveCapacity(Swift.min(count, rest.count / 4))
        for _ in 0..<count {
            guard let length = Self.integer(&rest) else { return nil }
            if length == -1 {
                values.append(nil)
                continue
            }
            guard length >= 0, rest.count >= Int(length) else { return nil }
            guard let value = T(binary: UnsafeRawBufferPointer(rebasing: rest.prefix(Int(length))), type: elementType) else { return nil }
            values.append(value)
            rest = rest.dropFirst(Int(length))
        }
        return values
    }

    private static func integer(_ rest: inout Slice<UnsafeRawBufferPointer>) -> Int32? {
        guard rest.count >= 4 else { return nil }
        defer { rest = rest.dropFirst(4) }
        return UnsafeRawBufferPointer(rebasing: rest.prefix(4)).bigEndian(Int32.self)
    }
}
