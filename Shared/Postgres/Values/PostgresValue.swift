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

/// PostgreSQL's binary formats: network byte order, as its `…_send` functions write them (src/backend/utils/adt).
extension PostgresValue {
    /// - Returns: false when the value is outside its type's range.
    func appendBinary(to buffer: inout [UInt8]) -> Bool {
        switch self {
        case .null: return true
        case .bool(let value): return value.appendElement(to: &buffer)
        case .int32(let value): return value.appendElement(to: &buffer)
        case .int64(let value): return value.appendElement(to: &buffer)
        case .double(let value): return value.appendElement(to: &buffer)
        case .text(let value): return value.appendElement(to: &buffer)
        case .bytes(let value): return value.appendElement(to: &buffer)
        case .uuid(let value): return value.appendElement(to: &buffer)
        case .timestamp(let milliseconds): return TimestampElement(milliseconds).appendElement(to: &buffer)
        case .jsonb(let value): return JSONBElement(value).appendElement(to: &buffer)
        default: return appendArray(to: &buffer)
        }
    }

    private func appendArray(to buffer: inout [UInt8]) -> Bool {
        switch self {
        case .boolArray(let values): append(values, of: .bool, to: &buffer)
        case .int32Array(let values): append(values, of: .int32, to: &buffer)
        case .int64Array(let values): append(values, of: .int64, to: &buffer)
        case .doubleArray(let values): append(values, of: .double, to: &buffer)
        case .textArray(let values): append(values, of: .text, to: &buffer)
        case .bytesArray(let values): append(values, of: .bytes, to: &buffer)
        case .uuidArray(let values): append(values, of: .uuid, to: &buffer)
        case .timestampArray(let values): append(values.lazy.map(TimestampElement.init), of: .timestamp, to: &buffer)
        case .optionalBoolArray(let values): append(values, of: .bool, to: &buffer)
        case .optionalInt32Array(let values): append(values, of: .int32, to: &buffer)
        case .optionalInt64Array(let values): append(values, of: .int64, to: &buffer)
        case .optionalDoubleArray(let values): append(values, of: .double, to: &buffer)
        case .optionalTextArray(let values): append(values, of: .text, to: &buffer)
        case .optionalBytesArray(let values): append(values, of: .bytes, to: &buffer)
        case .optionalUUIDArray(let values): append(values, of: .uuid, to: &buffer)
        case .optionalTimestampArray(let values): append(values.lazy.map { $0.map(TimestampElement.init) }, of: .timestamp, to: &buffer)
        default: false
        }
    }

    /// `array_send`: dimensions, whether there are NULLs, the element's type; then length and lower bound; then each element
    /// behind its length, -1 for NULL.
    private func append<Values: Collection>(_ values: Values, of element: PostgresType, to buffer: inout [UInt8]) -> Bool
    where Values.Element: ArrayElement {
        buffer.appendInteger(Int32(values.isEmpty ? 0 : 1))
        buffer.appendInteger(Int32(values.contains(where: \.isNull) ? 1 : 0))
        buffer.appendInteger(element.oid)
        guard !values.isEmpty else { return true }
        buffer.appendInteger(Int32(clamping: values.count))
        buffer.appendInteger(Int32(1))
        for value in values {
            if value.isNull {
                buffer.appendInteger(Int32(-1))
                continue
            }
            buffer.appendInteger(Int32(clamping: value.byteCount))
            guard value.appendElement(to: &buffer) else { return false }
        }
        return true
    }
}

/// A value in a PostgreSQL array, or alone as a parameter.
private protocol ArrayElement {
    var isNull: Bool { get }
    /// How many bytes ``appendElement(to:)`` appends.
    var byteCount: Int { get }
    /// Appends the value without its length; false when it is outside its type's range.
    func appendElement(to buffer: inout [UInt8]) -> Bool
}

extension ArrayElement {
    var isNull: Bool { false }
}

extension Optional: ArrayElement where Wrapped: ArrayElement {
    var isNull: Bool { self == nil }
    var byteCount: Int { self?.byteCount ?? 0 }
    func appendElement(to buffer: inout [UInt8]) -> Bool { self?.appendElement(to: &buffer) ?? true }
}

extension Bool: ArrayElement {
    fileprivate var byteCount: Int { 1 }
    fileprivate func appendElement(to buffer: inout [UInt8]) -> Bool {
        buffer.append(self ? 1 : 0)
        return true
    }
}

extension Int32: ArrayElement {
    fileprivate var byteCount: Int { 4 }
    fileprivate func appendElement(to buffer: inout [UInt8]) -> Bool {
        buffer.appendInteger(self)
        return true
    }
}

extension Int64: ArrayElement {
    fileprivate var byteCount: Int { 8 }
    fileprivate func appendElement(to buffer: inout [UInt8]) -> Bool {
        buffer.appendInteger(self)
        return true
    }
}

extension Double: ArrayElement {
    fileprivate var byteCount: Int { 8 }
    fileprivate func appendElement(to buffer: inout [UInt8]) -> Bool {
        buffer.appendInteger(bitPattern)
        return true
    }
}

extension String: ArrayElement {
    fileprivate var byteCount: Int { utf8.count }
    fileprivate func appendElement(to buffer: inout [UInt8]) -> Bool {
        buffer.append(contentsOf: utf8)
        return true
    }
}

extension [UInt8]: ArrayElement {
    fileprivate var byteCount: Int { count }
    fileprivate func appendElement(to buffer: inout [UInt8]) -> Bool {
        buffer.append(contentsOf: self)
        return true
    }
}

extension PostgresUUID: ArrayElement {
    fileprivate var byteCount: Int { 16 }
    fileprivate func appendElement(to buffer: inout [UInt8]) -> Bool {
        buffer.appendInteger(high)
        buffer.appendInteger(low)
        return true
    }
}

private struct TimestampElement: ArrayElement {
    let milliseconds: Int64

    init(_ milliseconds: Int64) { self.milliseconds = milliseconds }

    var byteCount: Int { 8 }

    func appendElement(to buffer: inout [UInt8]) -> Bool {
        guard let microseconds = PostgresTimestamp.microseconds(fromMilliseconds: milliseconds) else { return false }
        buffer.appendInteger(microseconds)
        return true
    }
}

/// `jsonb_send`: a version byte, then the text.
private struct JSONBElement: ArrayElement {
    let text: String

    init(_ text: String) { self.text = text }

    var byteCount: Int { 1 + text.utf8.count }

    func appendElement(to buffer: inout [UInt8]) -> Bool {
        buffer.append(1)
        buffer.append(contentsOf: text.utf8)
        return true
    }
}

extension [UInt8] {
    fileprivate mutating func appendInteger<T: FixedWidthInteger>(_ value: T) {
        Swift.withUnsafeBytes(of: value.bigEndian) { append(contentsOf: $0) }
    }
}

/// A Swift type whose values may stand in a ``PostgresQuery``: numbers, text, bytes, UUIDs and their arrays; each of them optional.
package protocol PostgresEncodable {
    /// The type of a NULL in its place.
    static var postgresType: PostgresType { get }
    var postgresValue: PostgresValue { get }
}

extension Array: PostgresEncodable where Element: PostgresArrayElement {
    package static var postgresType: PostgresType { Element.arrayType }
    package var postgresValue: PostgresValue { Element.array(self) }
}

/// An enumeration is sent as its text.
extension PostgresEncodable where Self: RawRepresentable, RawValue == String {
    package static var postgresType: PostgresType { .text }
    package var postgresValue: PostgresValue { .text(rawValue) }
}

/// The parameters of one statement in PostgreSQL's binary format, in one buffer, as `PQsendQueryPrepared` wants them.
struct ParameterBlock {
    private var buffer: [UInt8] = []
    /// The place of each value in `buffer`; nil for NULL.
    private var ranges: [Range<Int>?] = []

    init(_ values: [PostgresValue], operation: String) throws(PostgresError) {
        ranges.reserveCapacity(values.count)
        for value in values {
            let start = buffer.count
            guard value.appendBinary(to: &buffer) else {
                throw PostgresError(
                    .invalidParameter, operation: operation,
                    message: "parameter $\(ranges.count + 1) is outside what \(value.type.name) can hold")
            }
            ranges.append(value.isNull ? nil : start..<buffer.count)
        }
        guard buffer.count < Int(Int32.max), values.count <= Int(UInt16.max) else {
            throw PostgresError(.invalidParameter, operation: operation, message: "the parameters are more than one message can carry")
        }
    }

    var count: Int { ranges.count }

    /// Lends libpq's arguments: pointers, lengths and formats (1 = binary), valid during `body` only.
    func withArguments<R>(
        _ body: (UnsafePointer<UnsafePointer<CChar>?>?, UnsafePointer<Int32>?, UnsafePointer<Int32>?) -> R
    ) -> R {
        // An empty value needs a pointer too: to libpq, nil is NULL.
        let storage = buffer.isEmpty ? [0] : buffer
        return storage.withUnsafeBytes { raw in
            let base = raw.baseAddress?.assumingMemoryBound(to: CChar.self)
            let pointers = ranges.map { range in range.flatMap { base?.advanced(by: $0.lowerBound) } }
            let lengths = ranges.map { Int32($0?.count ?? 0) }
            let formats = [Int32](repeating: 1, count: ranges.count)
            return body(pointers, lengths, formats)
        }
    }
}

/// One SQL command with its parameters in place: `"SELECT owner FROM installations WHERE id = \(id)"`.
///
/// An interpolated value never becomes part of the text: it is sent beside it, in binary, under the number that replaces it in the text.
/// Everything else is a literal, so that string-built SQL does not compile.
///
/// A connection prepares the command when it first runs it. Its text does not depend on its values, so it is prepared once.
package struct PostgresQuery: Sendable, ExpressibleByStringInterpolation {
    let sql: String
    let parameters: [PostgresValue]

    package init(stringLiteral sql: StaticString) { (self.sql, parameters) = (sql.description, []) }
    package init(stringInterpolation text: Interpolation) { (sql, parameters) = (text.sql, text.parameters) }

    package struct Interpolation: StringInterpolationProtocol {
        fileprivate var sql = ""
        fileprivate var parameters: [PostgresValue] = []

        package init(literalCapacity: Int, interpolationCount: Int) {
            sql.reserveCapacity(literalCapacity + 3 * interpolationCount)
            parameters.reserveCapacity(interpolationCount)
        }

        package mutating func appendLiteral(_ literal: StaticString) {
            literal.withUTF8Buffer { sql.append(String(decoding: $0, as: UTF8.self)) }
        }

        package mutating func appendInterpolation(_ value: some PostgresEncodable) { append(value.postgresValue) }
        package mutating func appendInterpolation<Value: PostgresEncodable>(_ value: Value?) {
            append(value?.postgresValue ?? .null(Value.postgresType))
        }
        /// `timestamptz`, UNIX milliseconds.
        package mutating func appendInterpolation(milliseconds: Int64) { append(.timestamp(milliseconds: milliseconds)) }
        package mutating func appendInterpolation(milliseconds: Int64?) {
            append(milliseconds.map { .timestamp(milliseconds: $0) } ?? .null(.timestamp))
        }
        package mutating func appendInterpolation(milliseconds: [Int64]) { append(.timestampArray(milliseconds)) }
        package mutating func appendInterpolation(milliseconds: [Int64?]) { append(.optionalTimestampArray(milliseconds)) }
        /// `jsonb`.
        package mutating func appendInterpolation(json: String) { append(.jsonb(json)) }
        /// A part of the command, whose parameters are numbered on.
        package mutating func appendInterpolation(_ part: PostgresQuery) {
            var rest = part.sql[...]
            for (place, value) in part.parameters.enumerated() {
                guard let number = rest.firstRange(of: "$\(place + 1)") else { break }
                sql += rest[..<number.lowerBound]
                append(value)
                rest = rest[number.upperBound...]
            }
            sql += rest
        }
        /// `INSERT INTO table (column, …) VALUES (value, …)`
        package mutating func appendInterpolation(insertInto table: StaticString, _ row: [(column: StaticString, value: PostgresValue)]) {
            sql += "INSERT INTO \(table) (\(row.map(\.column.description).joined(separator: ", "))) VALUES ("
            for (place, assignment) in row.enumerated() {
                if place > 0 { sql += ", " }
                append(assignment.value)
            }
            sql += ")"
        }
        /// `UPDATE table SET column = value, …`
        package mutating func appendInterpolation(update table: StaticString, _ row: [(column: StaticString, value: PostgresValue)]) {
            sql += "UPDATE \(table) SET "
            for (place, assignment) in row.enumerated() {
                sql += place > 0 ? ", \(assignment.column) = " : "\(assignment.column) = "
                append(assignment.value)
            }
        }

        private mutating func append(_ value: PostgresValue) {
            parameters.append(value)
            sql += "$\(parameters.count)"
        }
    }
}
