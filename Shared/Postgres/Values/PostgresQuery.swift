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

        private mutating func append(_ value: PostgresValue) {
            parameters.append(value)
            sql += "$\(parameters.count)"
        }
    }
}
