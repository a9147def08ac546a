package import Postgres
package import PushModel

extension PushID {
    package init(_ uuid: PostgresUUID) { self.init(high: uuid.high, low: uuid.low) }
    package var uuid: PostgresUUID { PostgresUUID(high: high, low: low) }
}

extension PushID: PostgresScalar {
    package static var postgresType: PostgresType { .uuid }
    package static var arrayType: PostgresType { .uuidArray }
    package var postgresValue: PostgresValue { .uuid(uuid) }
    package static func array(_ values: [PushID]) -> PostgresValue { .uuidArray(values.map(\.uuid)) }
    package static func array(_ values: [PushID?]) -> PostgresValue { .optionalUUIDArray(values.map { $0?.uuid }) }
    package init(_ column: PostgresColumn) throws(PostgresError) { self.init(try PostgresUUID(column)) }
    package static func elements(of column: PostgresColumn) throws(PostgresError) -> [PushID] {
        try PostgresUUID.elements(of: column).map { PushID($0) }
    }
    package static func optionalElements(of column: PostgresColumn) throws(PostgresError) -> [PushID?] {
        try PostgresUUID.optionalElements(of: column).map { $0.map { PushID($0) } }
    }
}
