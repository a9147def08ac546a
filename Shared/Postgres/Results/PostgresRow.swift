/// One row. A NULL, another type or a missing column is a `.decoding` error, never a trap.
package struct PostgresRow: Sendable {
    let result: PostgresResult
    let row: Int

    /// The column of that name. Cast enums and other types without a Swift type to text in the SQL.
    package subscript<Value: PostgresDecodable>(_ name: StaticString) -> Value {
        get throws(PostgresError) { try Value(column(name)) }
    }

    /// A `timestamptz` in UNIX milliseconds, rounded down; `infinity` is an error.
    package func milliseconds(_ name: StaticString) throws(PostgresError) -> Int64 {
        try (column(name).required() as DecodedTimestamp).milliseconds
    }
    package func milliseconds(_ name: StaticString) throws(PostgresError) -> Int64? {
        try (column(name).optional() as DecodedTimestamp?)?.milliseconds
    }

    private func column(_ name: StaticString) throws(PostgresError) -> PostgresColumn {
        guard let index = result.index(ofColumn: name) else {
            throw PostgresError(.decoding, operation: "decode", message: "there is no column \(name)")
        }
        return PostgresColumn(result: result, row: row, index: index)
    }
}
