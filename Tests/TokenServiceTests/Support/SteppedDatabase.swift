import Postgres
import TestDatabase

/// How far a clock is set, in milliseconds: an hour, four days and a year, both ways.
enum ClockStep {
    static let hour: Int64 = 3_600_000
    static let all: [Int64] = [-8760, -96, -1, 1, 96, 8760].map { $0 * hour }
    static let moment: Int64 = 1_800_000_000_000
}

/// A database whose statements see another time than its server's.
struct SteppedDatabase {
    let pool: PostgresPool
    let uri: String

    /// Statements find `now()` and `clock_timestamp()` in the first schema of their path. Those that the schema's functions and views
    /// contain are the server's.
    static func with(_ body: (SteppedDatabase) async throws -> Void) async throws {
        try await withTestDatabase(migrations: RunningService.migrationsDirectory()) { pool, uri in
            try await pool.session { session in
                try session.simple(
                    """
                    CREATE SCHEMA clock;
                    CREATE TABLE clock.step (ahead bigint NOT NULL);
                    INSERT INTO clock.step VALUES (0);
                    CREATE FUNCTION clock.now() RETURNS timestamptz LANGUAGE sql STABLE
                        RETURN pg_catalog.now() + (SELECT ahead FROM clock.step) * interval '1 millisecond';
                    CREATE FUNCTION clock.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE
                        RETURN pg_catalog.clock_timestamp() + (SELECT ahead FROM clock.step) * interval '1 millisecond';
                    DO $$ BEGIN
                        EXECUTE format('ALTER DATABASE %I SET search_path = clock, pg_catalog, public', current_database());
                    END $$
                    """)
            }
            try await body(SteppedDatabase(pool: pool, uri: uri))
        }
    }

    func set(_ milliseconds: Int64) async throws {
        try await pool.session { session in _ = try session.execute("UPDATE clock.step SET ahead = \(milliseconds)") }
    }

    /// By the clock that processes see.
    func execute(_ statement: PostgresQuery) async throws {
        try await pool.transaction { session in
            try Self.look(session)
            try session.execute(statement)
        }
    }

    /// By the clock that processes see.
    func count(_ statement: PostgresQuery) async throws -> Int {
        try await pool.transaction { session in
            try Self.look(session)
            return try session.execute(statement).only()["count"]
        }
    }

    /// At that clock, in this transaction.
    private static func look(_ session: PostgresSession) throws {
        try session.execute("SELECT set_config('search_path', 'clock, pg_catalog, public', true)")
    }
}
