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

    /// For error messages; a type without a name here shows as its OID.
    var name: String { Self.names[oid] ?? "type \(oid)" }

    private static let names: [UInt32: String] = [
        16: "bool", 17: "bytea", 18: "char", 19: "name", 20: "int8", 21: "int2", 23: "int4", 25: "text", 114: "json", 700: "float4",
        701: "float8", 705: "unknown", 1000: "bool[]", 1001: "bytea[]", 1007: "int4[]", 1009: "text[]", 1016: "int8[]", 1022: "float8[]",
        1042: "bpchar", 1043: "varchar", 1082: "date", 1114: "timestamp", 1184: "timestamptz", 1185: "timestamptz[]", 1700: "numeric",
        2950: "uuid", 2951: "uuid[]", 3802: "jsonb", 3807: "jsonb[]",
    ]
}
