/// A Swift type that a column is decoded as: `let lane: Lane = try row["lane"]`.
package protocol PostgresDecodable {
    /// - Throws: `.decoding`, with the column's name, if it holds another type, a value that the Swift type cannot hold, or an unexpected
    ///   NULL.
    init(_ column: PostgresColumn) throws(PostgresError)
}

extension Optional: PostgresDecodable where Wrapped: PostgresDecodable {
    package init(_ column: PostgresColumn) throws(PostgresError) { self = try column.isNull ? nil : Wrapped(column) }
}

extension Array: PostgresDecodable where Element: PostgresArrayElement {
    package init(_ column: PostgresColumn) throws(PostgresError) { self = try Element.elements(of: column) }
}

/// An enumeration is read from its text.
extension PostgresDecodable where Self: RawRepresentable, RawValue == String {
    package init(_ column: PostgresColumn) throws(PostgresError) {
        guard let value = Self(rawValue: try String(column)) else { throw column.failure("holds a text that is no \(Self.self)") }
        self = value
    }
}

extension PostgresByteStrings: PostgresDecodable {
    package init(_ column: PostgresColumn) throws(PostgresError) { self = try column.byteStrings() }
}
