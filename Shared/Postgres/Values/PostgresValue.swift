/// A parameter of a statement. Each case has one PostgreSQL type, sent explicitly and in binary, so nothing is guessed or parsed.
///
/// Where the column has another type than the case, cast in the SQL: `$1::text::mood`.
package enum PostgresValue: Sendable {
    /// NULL of the type that the server infers. Prefer the `optional…` functions: their type does not depend on the value.
    case null
    /// NULL of a stated type.
    case typedNull(PostgresType)
    case bool(Bool)
    case int32(Int32)
    case int64(Int64)
    case double(Double)
    /// Must not hold U+0000, which PostgreSQL refuses (22021).
    case text(String)
    case bytes([UInt8])
    case uuid(high: UInt64, low: UInt64)
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
    case jsonbArray([String])
    case optionalBoolArray([Bool?])
    case optionalInt32Array([Int32?])
    case optionalInt64Array([Int64?])
    case optionalDoubleArray([Double?])
    case optionalTextArray([String?])
    case optionalBytesArray([[UInt8]?])
    case optionalUUIDArray([PostgresUUID?])
    case optionalTimestampArray([Int64?])
    case optionalJSONBArray([String?])

    package static func uuid(_ value: PostgresUUID) -> PostgresValue { .uuid(high: value.high, low: value.low) }
    package static func optionalBool(_ value: Bool?) -> PostgresValue { value.map { .bool($0) } ?? .typedNull(.bool) }
    package static func optionalInt32(_ value: Int32?) -> PostgresValue { value.map { .int32($0) } ?? .typedNull(.int32) }
    package static func optionalInt64(_ value: Int64?) -> PostgresValue { value.map { .int64($0) } ?? .typedNull(.int64) }
    package static func optionalDouble(_ value: Double?) -> PostgresValue { value.map { .double($0) } ?? .typedNull(.double) }
    package static func optionalText(_ value: String?) -> PostgresValue { value.map { .text($0) } ?? .typedNull(.text) }
    package static func optionalBytes(_ value: [UInt8]?) -> PostgresValue { value.map { .bytes($0) } ?? .typedNull(.bytes) }
    package static func optionalUUID(_ value: PostgresUUID?) -> PostgresValue { value.map { .uuid($0) } ?? .typedNull(.uuid) }
    package static func optionalTimestamp(milliseconds value: Int64?) -> PostgresValue {
        value.map { .timestamp(milliseconds: $0) } ?? .typedNull(.timestamp)
    }
    package static func optionalJSONB(_ value: String?) -> PostgresValue { value.map { .jsonb($0) } ?? .typedNull(.jsonb) }
}

extension PostgresValue {
    var type: PostgresType {
        switch self {
        case .null: .inferred
        case .typedNull(let type): type
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
        case .jsonbArray, .optionalJSONBArray: .jsonbArray
        }
    }

    var isNull: Bool {
        switch self {
        case .null, .typedNull: true
        default: false
        }
    }
}

/// Shows the type only: values are personal data or secrets and have no business in a log line.
extension PostgresValue: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    package var description: String { isNull ? "NULL" : "a value of \(type.name)" }
    package var debugDescription: String { description }
    package var customMirror: Mirror { Mirror(self, children: ["type": type.name]) }
}
