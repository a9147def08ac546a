/// The rows that one statement returned, in order. Values are decoded when read; nothing is copied before.
package struct PostgresRows: Sendable, RandomAccessCollection {
    private let result: PostgresResult

    init(_ result: PostgresResult) { self.result = result }

    package var startIndex: Int { 0 }
    package var endIndex: Int { result.rowCount }

    /// Like an array, traps outside `indices`; ``first`` and ``only()`` do not.
    package subscript(row: Int) -> PostgresRow {
        guard row >= 0, row < result.rowCount else { preconditionFailure("row \(row) of \(count)") }
        return PostgresRow(result: result, row: row)
    }

    /// Rows inserted, updated, deleted or selected; 0 for a command that has no such number.
    package var affected: Int { result.affectedRows }

    /// The one row of a result that must have exactly one.
    package func only() throws(PostgresError) -> PostgresRow {
        guard count == 1 else {
            throw PostgresError(.decoding, operation: "only", message: "the result has \(count) rows where one was expected")
        }
        return self[0]
    }

    /// One column of every row.
    package func column<Value: PostgresDecodable>(_ name: StaticString) throws(PostgresError) -> [Value] {
        var values: [Value] = []
        values.reserveCapacity(count)
        for row in self { values.append(try row[name]) }
        return values
    }
}
