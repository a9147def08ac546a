/// A type that reads PostgreSQL's binary formats (`…_send` in src/backend/utils/adt).
protocol BinaryDecodable {
    /// The column type it is mostly read from: compared first, because going through the list takes longer than reading a number.
    static var usualType: PostgresType { get }
    /// The others that it reads.
    static var otherTypes: [PostgresType] { get }
    /// Reads `type`. nil when the bytes have not the format of the type.
    init?(binary bytes: UnsafeRawBufferPointer, type: PostgresType)
}

extension BinaryDecodable {
    static var otherTypes: [PostgresType] { [] }

    static func reads(_ type: PostgresType) -> Bool { type == usualType || otherTypes.contains(type) }
}

extension Bool: BinaryDecodable {
    static var usualType: PostgresType { .bool }

    init?(binary bytes: UnsafeRawBufferPointer, type: PostgresType) {
        guard bytes.count == 1 else { return nil }
        self = bytes[0] != 0
    }
}

extension Int32: BinaryDecodable {
    static var usualType: PostgresType { .int32 }
    static let otherTypes: [PostgresType] = [.int16]

    init?(binary bytes: UnsafeRawBufferPointer, type: PostgresType) {
        guard let value = type == .int16 ? bytes.bigEndian(Int16.self).map(Int32.init) : bytes.bigEndian(Int32.self) else { return nil }
        self = value
    }
}

extension Int64: BinaryDecodable {
    static var usualType: PostgresType { .int64 }
    static let otherTypes: [PostgresType] = [.int32, .int16]

    init?(binary bytes: UnsafeRawBufferPointer, type: PostgresType) {
        if type == .int64 {
            guard let value = bytes.bigEndian(Int64.self) else { return nil }
            self = value
        } else {
            guard let value = Int32(binary: bytes, type: type) else { return nil }
            self = Int64(value)
        }
    }
}

extension Int: BinaryDecodable {
    static var usualType: PostgresType { .int64 }
    static let otherTypes: [PostgresType] = [.int32, .int16]

    init?(binary bytes: UnsafeRawBufferPointer, type: PostgresType) {
        guard let value = Int64(binary: bytes, type: type) else { return nil }
        self.init(value)
    }
}

extension Double: BinaryDecodable {
    static var usualType: PostgresType { .double }
    static let otherTypes: [PostgresType] = [.float]

    init?(binary bytes: UnsafeRawBufferPointer, type: PostgresType) {
        if type == .double {
            guard let bits = bytes.bigEndian(UInt64.self) else { return nil }
            self.init(bitPattern: bits)
        } else {
            guard let bits = bytes.bigEndian(UInt32.self) else { return nil }
            self.init(Float(bitPattern: bits))
        }
    }
}

extension String: BinaryDecodable {
    static var usualType: PostgresType { .text }
    static let otherTypes: [PostgresType] = [.varchar, .paddedText, .name, .char, .unknown, .json, .jsonb]

    init?(binary bytes: UnsafeRawBufferPointer, type: PostgresType) {
        // `jsonb_send` puts a version byte, 1, before the text.
        if type == .jsonb {
            guard bytes.first == 1 else { return nil }
            self.init(decoding: bytes.dropFirst(), as: UTF8.self)
        } else {
            self.init(decoding: bytes, as: UTF8.self)
        }
    }
}

extension [UInt8]: BinaryDecodable {
    static var usualType: PostgresType { .bytes }

    init?(binary bytes: UnsafeRawBufferPointer, type: PostgresType) { self.init(bytes) }
}

extension PostgresUUID: BinaryDecodable {
    static var usualType: PostgresType { .uuid }

    init?(binary bytes: UnsafeRawBufferPointer, type: PostgresType) {
        guard bytes.count == 16, let high = UnsafeRawBufferPointer(rebasing: bytes[..<8]).bigEndian(UInt64.self),
            let low = UnsafeRawBufferPointer(rebasing: bytes[8...]).bigEndian(UInt64.self)
        else { return nil }
        self.init(high: high, low: low)
    }
}

/// A point in time in UNIX milliseconds. A `timestamp` without zone is taken as UTC.
struct DecodedTimestamp: BinaryDecodable {
    static var usualType: PostgresType { .timestamp }
    static let otherTypes: [PostgresType] = [.timestampWithoutZone]

    let milliseconds: Int64

    init?(binary bytes: UnsafeRawBufferPointer, type: PostgresType) {
        guard let microseconds = bytes.bigEndian(Int64.self),
            let milliseconds = PostgresTimestamp.milliseconds(fromMicroseconds: microseconds)
        else { return nil }
        self.milliseconds = milliseconds
    }
}

extension UnsafeRawBufferPointer {
    /// The whole buffer as one number; nil unless it has exactly that many bytes.
    func bigEndian<T: FixedWidthInteger>(_: T.Type) -> T? {
        guard count == T.bitWidth / 8 else { return nil }
        return T(bigEndian: loadUnaligned(as: T.self))
    }
}
