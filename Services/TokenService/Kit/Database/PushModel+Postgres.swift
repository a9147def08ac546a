package import Postgres
package import PushModel

extension AppSlug: PostgresEncodable, PostgresDecodable {
    package static var postgresType: PostgresType { .text }
    package var postgresValue: PostgresValue { .text(text) }

    package init(_ column: PostgresColumn) throws(PostgresError) {
        guard let slug = AppSlug(try String(column)) else { throw column.failure("holds a text that is no slug") }
        self = slug
    }
}

extension APNsEnvironment: PostgresEncodable, PostgresDecodable {}
extension Lane: PostgresEncodable, PostgresDecodable {}
extension PushType: PostgresEncodable, PostgresDecodable {}
extension OutcomeClass: PostgresEncodable, PostgresDecodable {}
extension PushJob.OnUnknown: PostgresEncodable, PostgresDecodable {}
