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

/// A `uuid` as two numbers, most significant first, so that this module needs none of the domain's types.
package struct PostgresUUID: Hashable, Sendable, Comparable {
    package var high: UInt64
    package var low: UInt64

    package init(high: UInt64, low: UInt64) {
        self.high = high
        self.low = low
    }

    /// Compares as PostgreSQL does.
    package static func < (left: PostgresUUID, right: PostgresUUID) -> Bool { (left.high, left.low) < (right.high, right.low) }
}

/// The type of a parameter or column: the OID that PostgreSQL's catalogue gives it (`pg_type.dat`; fixed for built-in types).
package struct PostgresType: Hashable, Sendable {
    let oid: UInt32

    init(oid: UInt32) { self.oid = oid }

    package static let bool = PostgresType(oid: 16)
    package static let bytes = PostgresType(oid: 17)
    package static let int64 = PostgresType(oid: 20)
    package static let int32 = PostgresType(oid: 23)
    package static let text = PostgresType(oid: 25)
    package static let double = PostgresType(oid: 701)
    /// `timestamptz`.
    package static let timestamp = PostgresType(oid: 1184)
    package static let uuid = PostgresType(oid: 2950)
    package static let jsonb = PostgresType(oid: 3802)

    package static let boolArray = PostgresType(oid: 1000)
    package static let bytesArray = PostgresType(oid: 1001)
    package static let int32Array = PostgresType(oid: 1007)
    package static let textArray = PostgresType(oid: 1009)
    package static let int64Array = PostgresType(oid: 1016)
    package static let doubleArray = PostgresType(oid: 1022)
    package static let timestampArray = PostgresType(oid: 1185)
    package static let uuidArray = PostgresType(oid: 2951)

    static let char = PostgresType(oid: 18)
    static let name = PostgresType(oid: 19)
    static let int16 = PostgresType(oid: 21)
    static let json = PostgresType(oid: 114)
    static let float = PostgresType(oid: 700)
    static let unknown = PostgresType(oid: 705)
    static let paddedText = PostgresType(oid: 1042)
    static let varchar = PostgresType(oid: 1043)
    static let timestampWithoutZone = PostgresType(oid: 1114)

    /// The type's name in error messages; a type without a name here shows as its OID.
    var name: String { Self.names[oid] ?? "type \(oid)" }

    private static let names: [UInt32: String] = [
        16: "bool", 17: "bytea", 18: "char", 19: "name", 20: "int8", 21: "int2", 23: "int4", 25: "text", 114: "json", 700: "float4",
        701: "float8", 705: "unknown", 1000: "bool[]", 1001: "bytea[]", 1007: "int4[]", 1009: "text[]", 1016: "int8[]", 1022: "float8[]",
        1042: "bpchar", 1043: "varchar", 1082: "date", 1114: "timestamp", 1184: "timestamptz", 1185: "timestamptz[]", 1700: "numeric",
        2950: "uuid", 2951: "uuid[]", 3802: "jsonb", 3807: "jsonb[]",
    ]
}
