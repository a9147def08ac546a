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

    /// The channel `game` of each app, open, without a request to Apple.
    func insertChannel(in environment: String = "production") async throws {
        try await execute(
            """
            WITH scope AS (INSERT INTO channel_scopes (app_id, environment) SELECT id, \(environment) FROM apps RETURNING app_id),
            updates AS (INSERT INTO update_targets (app_id, id) SELECT app_id, 'game' FROM scope)
            INSERT INTO channels (app_id, environment, name, apple_id, storage, state, created_at, changed_at)
            SELECT app_id, \(environment), 'game', 'AAAA', 'none', 'open', now(), now() FROM scope
            """)
    }

    func execute(_ query: PostgresQuery) async throws {
        try await pool.session { session in _ = try session.execute(query) }
    }
}
