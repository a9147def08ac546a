/// One SQL command, always a literal: string-built SQL does not compile. Parameters are `$1`, `$2`, …
///
/// ``PostgresQuery`` has its parameters in its text; this form goes as soon as nothing uses it.
package struct PostgresStatement: Sendable, ExpressibleByStringLiteral {
    let sql: String

    package init(stringLiteral sql: StaticString) { self.sql = sql.description }
}
