internal import CPostgres
import Glibc

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
