package import Postgres
package import PushModel

extension PushID {
    package init(_ uuid: PostgresUUID) { self.init(high: uuid.high, low: uuid.low) }
    package var uuid: PostgresUUID { PostgresUUID(high: high, low: low) }
}

extension PostgresValue {
    package static func id(_ id: PushID) -> PostgresValue { .uuid(high: id.high, low: id.low) }
    package static func ids(_ ids: some Sequence<PushID>) -> PostgresValue { .uuidArray(ids.map(\.uuid)) }
    package static func optionalID(_ id: PushID?) -> PostgresValue { .optionalUUID(id?.uuid) }
}

extension PostgresRow {
    package func id(_ column: Int) throws(PostgresError) -> PushID { PushID(try uuid(column)) }
    package func optionalID(_ column: Int) throws(PostgresError) -> PushID? { try optionalUUID(column).map { PushID($0) } }
}
