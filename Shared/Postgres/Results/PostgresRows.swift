internal import CPostgres
import Glibc

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

/// Owns one `PGresult`, which is read-only once made and may be read from any thread (libpq manual 34.20), hence the unchecked conformance.
final class PostgresResult: @unchecked Sendable {
    private let handle: OpaquePointer

    init(taking handle: OpaquePointer) { self.handle = handle }
    deinit { PQclear(handle) }

    var rowCount: Int { Int(PQntuples(handle)) }
    var columnCount: Int { Int(PQnfields(handle)) }
    var status: ExecStatusType { PQresultStatus(handle) }
    var isCopy: Bool { [PGRES_COPY_IN, PGRES_COPY_OUT, PGRES_COPY_BOTH].contains(status) }
    /// `INSERT 0 3`, `COMMIT`, …
    var commandTag: String { String(cString: PQcmdStatus(handle)) }
    /// Rows inserted, updated, deleted, moved, fetched or selected; 0 where the command has none.
    var affectedRows: Int { Int(String(cString: PQcmdTuples(handle))) ?? 0 }

    /// Compares bytes: PostgreSQL's names of columns are lower case unless the statement quotes them.
    func index(ofColumn name: StaticString) -> Int? {
        (0..<columnCount).first { column in
            guard let found = PQfname(handle, Int32(column)) else { return false }
            return strcmp(found, UnsafeRawPointer(name.utf8Start).assumingMemoryBound(to: CChar.self)) == 0
        }
    }
    func columnName(_ column: Int) -> String { PQfname(handle, Int32(column)).map { String(cString: $0) } ?? "" }
    func columnType(_ column: Int) -> PostgresType { PostgresType(oid: PQftype(handle, Int32(column))) }

    /// One field of the error report, such as `PG_DIAG_SQLSTATE`.
    func errorField(_ field: Int32) -> String? { PQresultErrorField(handle, field).map { String(cString: $0) } }
    var errorMessage: String { String(cString: PQresultErrorMessage(handle)) }

    /// Lends one cell's bytes, or nil for NULL; the pointer lives as long as `body`. Row and column must exist.
    func withCell<R, E: Error>(row: Int, column: Int, _ body: (UnsafeRawBufferPointer?) throws(E) -> R) throws(E) -> R {
        guard PQgetisnull(handle, Int32(row), Int32(column)) == 0 else { return try body(nil) }
        let count = Int(PQgetlength(handle, Int32(row), Int32(column)))
        return try withExtendedLifetime(self) { () throws(E) -> R in
            try body(UnsafeRawBufferPointer(start: PQgetvalue(handle, Int32(row), Int32(column)), count: count))
        }
    }
}
