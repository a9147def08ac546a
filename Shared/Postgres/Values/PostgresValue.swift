/// A parameter of a query. Each case has one PostgreSQL type, sent explicitly and in binary, so that the server guesses and parses nothing.
///
/// If the column has another type than the case, cast in the SQL: `\(mood)::text::mood`.
package enum PostgresValue: Sendable {
    case null(PostgresType)
    case bool(Bool)
    case int32(Int32)
    case int64(Int64)
    case double(Double)
    /// Must not hold U+0000, which PostgreSQL refuses (22021).
    case text(String)
    case bytes([UInt8])
    case uuid(PostgresUUID)
    /// `timestamptz`, UNIX milliseconds.
    case timestamp(milliseconds: Int64)
    /// A JSON text; the server checks it (22P02).
    case jsonb(String)
    case boolArray([Bool])
    case int32Array([Int32])
    case int64Array([Int64])
    case doubleArray([Double])
    case textArray([String])
    case bytesArray([[UInt8]])
    case uuidArray([PostgresUUID])
    case timestampArray([Int64])
    case optionalBoolArray([Bool?])
    case optionalInt32Array([Int32?])
    case optionalInt64Array([Int64?])
    case optionalDoubleArray([Double?])
    case optionalTextArray([String?])
    case optionalBytesArray([[UInt8]?])
    case optionalUUIDArray([PostgresUUID?])
    case optionalTimestampArray([Int64?])
}

extension PostgresValue {
    var type: PostgresType {
        switch self {
        case .null(let type): type
        case .bool: .bool
        case .int32: .int32
        case .int64: .int64
        case .double: .double
        case .text: .text
        case .bytes: .bytes
        case .uuid: .uuid
        case .timestamp: .timestamp
        case .jsonb: .jsonb
        case .boolArray, .optionalBoolArray: .boolArray
        case .int32Array, .optionalInt32Array: .int32Array
        case .int64Array, .optionalInt64Array: .int64Array
        case .doubleArray, .optionalDoubleArray: .doubleArray
        case .textArray, .optionalTextArray: .textArray
        case .bytesArray, .optionalBytesArray: .bytesArray
        case .uuidArray, .optionalUUIDArray: .uuidArray
        case .timestampArray, .optionalTimestampArray: .timestampArray
        }
    }

    var isNull: Bool {
        if case .null = self { true } else { false }
    }
}

/// Shows the type only: values are personal data or secrets and must not appear in a log line.
extension PostgresValue: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    package var description: String { isNull ? "NULL" : "a value of \(type.name)" }
    package var debugDescription: String { description }
    package var customMirror: Mirror { Mirror(self, children: ["type": type.name]) }
}
