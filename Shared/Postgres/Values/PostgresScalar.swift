/// The element types of an array in PostgreSQL. `[UInt8]` is `bytea`, every other array is one.
package protocol PostgresArrayElement {
    static var arrayType: PostgresType { get }
    static func array(_ values: [Self]) -> PostgresValue
    static func elements(of column: PostgresColumn) throws(PostgresError) -> [Self]
}

/// A value of one PostgreSQL type, alone and in arrays, also in those that hold NULLs.
package protocol PostgresScalar: PostgresEncodable, PostgresDecodable, PostgresArrayElement {
    static func array(_ values: [Self?]) -> PostgresValue
    static func optionalElements(of column: PostgresColumn) throws(PostgresError) -> [Self?]
}

extension Optional: PostgresArrayElement where Wrapped: PostgresScalar {
    package static var arrayType: PostgresType { Wrapped.arrayType }
    package static func array(_ values: [Wrapped?]) -> PostgresValue { Wrapped.array(values) }
    package static func elements(of column: PostgresColumn) throws(PostgresError) -> [Wrapped?] { try Wrapped.optionalElements(of: column) }
}

extension UInt8: PostgresArrayElement {
    package static var arrayType: PostgresType { .bytes }
    package static func array(_ values: [UInt8]) -> PostgresValue { .bytes(values) }
    package static func elements(of column: PostgresColumn) throws(PostgresError) -> [UInt8] { try column.required() }
}

extension Bool: PostgresScalar {
    package static var postgresType: PostgresType { .bool }
    package static var arrayType: PostgresType { .boolArray }
    package var postgresValue: PostgresValue { .bool(self) }
    package static func array(_ values: [Bool]) -> PostgresValue { .boolArray(values) }
    package static func array(_ values: [Bool?]) -> PostgresValue { .optionalBoolArray(values) }
    package init(_ column: PostgresColumn) throws(PostgresError) { self = try column.required() }
    package static func elements(of column: PostgresColumn) throws(PostgresError) -> [Bool] { try column.elements() }
    package static func optionalElements(of column: PostgresColumn) throws(PostgresError) -> [Bool?] { try column.optionalElements() }
}

extension Int32: PostgresScalar {
    package static var postgresType: PostgresType { .int32 }
    package static var arrayType: PostgresType { .int32Array }
    package var postgresValue: PostgresValue { .int32(self) }
    package static func array(_ values: [Int32]) -> PostgresValue { .int32Array(values) }
    package static func array(_ values: [Int32?]) -> PostgresValue { .optionalInt32Array(values) }
    package init(_ column: PostgresColumn) throws(PostgresError) { self = try column.required() }
    package static func elements(of column: PostgresColumn) throws(PostgresError) -> [Int32] { try column.elements() }
    package static func optionalElements(of column: PostgresColumn) throws(PostgresError) -> [Int32?] { try column.optionalElements() }
}

extension Int64: PostgresScalar {
    package static var postgresType: PostgresType { .int64 }
    package static var arrayType: PostgresType { .int64Array }
    package var postgresValue: PostgresValue { .int64(self) }
    package static func array(_ values: [Int64]) -> PostgresValue { .int64Array(values) }
    package static func array(_ values: [Int64?]) -> PostgresValue { .optionalInt64Array(values) }
    package init(_ column: PostgresColumn) throws(PostgresError) { self = try column.required() }
    package static func elements(of column: PostgresColumn) throws(PostgresError) -> [Int64] { try column.elements() }
    package static func optionalElements(of column: PostgresColumn) throws(PostgresError) -> [Int64?] { try column.optionalElements() }
}

extension Double: PostgresScalar {
    package static var postgresType: PostgresType { .double }
    package static var arrayType: PostgresType { .doubleArray }
    package var postgresValue: PostgresValue { .double(self) }
    package static func array(_ values: [Double]) -> PostgresValue { .doubleArray(values) }
    package static func array(_ values: [Double?]) -> PostgresValue { .optionalDoubleArray(values) }
    package init(_ column: PostgresColumn) throws(PostgresError) { self = try column.required() }
    package static func elements(of column: PostgresColumn) throws(PostgresError) -> [Double] { try column.elements() }
    package static func optionalElements(of column: PostgresColumn) throws(PostgresError) -> [Double?] { try column.optionalElements() }
}

extension String: PostgresScalar {
    package static var postgresType: PostgresType { .text }
    package static var arrayType: PostgresType { .textArray }
    package var postgresValue: PostgresValue { .text(self) }
    package static func array(_ values: [String]) -> PostgresValue { .textArray(values) }
    package static func array(_ values: [String?]) -> PostgresValue { .optionalTextArray(values) }
    package init(_ column: PostgresColumn) throws(PostgresError) { self = try column.required() }
    package static func elements(of column: PostgresColumn) throws(PostgresError) -> [String] { try column.elements() }
    package static func optionalElements(of column: PostgresColumn) throws(PostgresError) -> [String?] { try column.optionalElements() }
}

extension PostgresUUID: PostgresScalar {
    package static var postgresType: PostgresType { .uuid }
    package static var arrayType: PostgresType { .uuidArray }
    package var postgresValue: PostgresValue { .uuid(self) }
    package static func array(_ values: [PostgresUUID]) -> PostgresValue { .uuidArray(values) }
    package static func array(_ values: [PostgresUUID?]) -> PostgresValue { .optionalUUIDArray(values) }
    package init(_ column: PostgresColumn) throws(PostgresError) { self = try column.required() }
    package static func elements(of column: PostgresColumn) throws(PostgresError) -> [PostgresUUID] { try column.elements() }
    package static func optionalElements(of column: PostgresColumn) throws(PostgresError) -> [PostgresUUID?] {
        try column.optionalElements()
    }
}

/// `int8`, as `Int64`.
extension Int: PostgresScalar {
    package static var postgresType: PostgresType { .int64 }
    package static var arrayType: PostgresType { .int64Array }
    package var postgresValue: PostgresValue { .int64(Int64(self)) }
    package static func array(_ values: [Int]) -> PostgresValue { .int64Array(values.map(Int64.init)) }
    package static func array(_ values: [Int?]) -> PostgresValue { .optionalInt64Array(values.map { $0.map(Int64.init) }) }
    package init(_ column: PostgresColumn) throws(PostgresError) { self = try column.required() }
    package static func elements(of column: PostgresColumn) throws(PostgresError) -> [Int] { try column.elements() }
    package static func optionalElements(of column: PostgresColumn) throws(PostgresError) -> [Int?] { try column.optionalElements() }
}

/// `bytea[]`.
extension [UInt8]: PostgresArrayElement, PostgresScalar {
    package static var arrayType: PostgresType { .bytesArray }
    package static func array(_ values: [[UInt8]]) -> PostgresValue { .bytesArray(values) }
    package static func array(_ values: [[UInt8]?]) -> PostgresValue { .optionalBytesArray(values) }
    package static func elements(of column: PostgresColumn) throws(PostgresError) -> [[UInt8]] { try column.elements() }
    package static func optionalElements(of column: PostgresColumn) throws(PostgresError) -> [[UInt8]?] { try column.optionalElements() }
}
