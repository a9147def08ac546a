import Postgres

extension RunningService {
    /// The one `count(*)` that a query answers with.
    func count(_ query: PostgresQuery) async throws -> Int64 { try await number("count", query) }

    /// The one number that a query answers with, in the column of that name.
    func number(_ column: StaticString, _ query: PostgresQuery) async throws -> Int64 {
        try await pool.session { session in try session.execute(query).only()[column] }
    }

    /// One column of every row.
    func texts(_ column: StaticString, _ query: PostgresQuery) async throws -> [String] {
        try await pool.session { session in try session.execute(query).column(column) }
    }

    func execute(_ query: PostgresQuery) async throws {
        try await pool.session { session in _ = try session.execute(query) }
    }
}
