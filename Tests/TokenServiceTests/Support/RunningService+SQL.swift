import Postgres

extension RunningService {
    /// The one number that a query answers with.
    func count(_ statement: PostgresStatement, _ parameters: [PostgresValue] = []) async throws -> Int64 {
        try await pool.session { session in try session.execute(statement, parameters).only().int64(0) }
    }

    func execute(_ statement: PostgresStatement, _ parameters: [PostgresValue] = []) async throws {
        try await pool.session { session in _ = try session.execute(statement, parameters) }
    }
}
