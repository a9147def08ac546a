/// A Swift type that a column is decoded as: `let lane: Lane = try row["lane"]`.
package protocol PostgresDecodable {
    /// - Throws: `.decoding`, with the column's name, where it holds something else.
    init(_ column: PostgresColumn) throws(PostgresError)
}

/// One column of one row.
package struct PostgresColumn: Sendable {
    let row: PostgresRow
    let index: Int

    package var isNull: Bool { get throws(PostgresError) { try row.isNull(index) } }

    package func failure(_ words: String) -> PostgresError { row.failure(index, words) }
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

extension PostgresRow {
    /// The column of that name.
    package subscript<Value: PostgresDecodable>(_ name: StaticString) -> Value {
        get throws(PostgresError) { try Value(column(name)) }
    }

    /// A `timestamptz` in UNIX milliseconds, rounded down; `infinity` is an error.
    package func milliseconds(_ name: StaticString) throws(PostgresError) -> Int64 { try timestampMilliseconds(column(name).index) }
    package func milliseconds(_ name: StaticString) throws(PostgresError) -> Int64? {
        try optionalTimestampMilliseconds(column(name).index)
    }

    private func column(_ name: StaticString) throws(PostgresError) -> PostgresColumn {
        guard let index = result.index(ofColumn: name) else {
            throw PostgresError(.decoding, operation: "decode", message: "there is no column \(name)")
        }
        return PostgresColumn(row: self, index: index)
    }
}

extension PostgresRows {
    /// One column of every row.
    package func column<Value: PostgresDecodable>(_ name: StaticString) throws(PostgresError) -> [Value] {
        var values: [Value] = []
        values.reserveCapacity(count)
        for row in self { values.append(try row[name]) }
        return values
    }
}

extension PostgresByteStrings: PostgresDecodable {
    package init(_ column: PostgresColumn) throws(PostgresError) { self = try column.row.byteStrings(column.index) }
}
