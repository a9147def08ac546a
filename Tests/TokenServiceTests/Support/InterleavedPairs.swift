import Postgres
import Synchronization
import TestDatabase
import Testing

@testable import TokenService

/// Two transactions on a real database, of which the first stops between any two of its writes while the second runs as far as it can.
///
/// The first one stops at the beginning of a statement, in a trigger: the statement has its view of the database by then. So whatever the
/// second one commits meanwhile, the statement finds only in rows that it locks.
struct InterleavedPairs {
    /// Locks of this name keep the first one back.
    private static let gate: Int64 = 4711
    private static let tables = [
        "cancellations", "fan_outs", "fences", "holds", "installations", "jobs", "notifications", "receipts", "tokens",
        "update_targets",
    ]

    /// For the world of a run, and for looking.
    let pool: PostgresPool
    private let first: PostgresPool
    private let second: PostgresPool
    private let keeper: PostgresPool

    static func with(_ body: (InterleavedPairs) async throws -> Void) async throws {
        try await withTestDatabase(migrations: RunningService.migrationsDirectory()) { pool, uri in
            func single(_ name: String) throws -> PostgresPool {
                var configuration = try TestServer.configuration(uri: uri)
                configuration.poolSize = 1
                configuration.applicationName = name
                configuration.sessionSettings = TokenServiceConfiguration.planning.merging(["deadlock_timeout": "20ms"]) { $1 }
                // A transaction waits for as long as the test keeps the other one back.
                configuration.statementTimeout = .seconds(60)
                configuration.lockTimeout = .zero
                return PostgresPool(configuration)
            }
            let pairs = InterleavedPairs(pool: pool, first: try single("first"), second: try single("second"), keeper: try single("keeper"))
            try await pool.session { session in try session.simple(Self.triggers) }
            let result: Result<Void, any Error>
            do { result = .success(try await body(pairs)) } catch { result = .failure(error) }
            for pool in [pairs.first, pairs.second, pairs.keeper] { await pool.close() }
            try result.get()
        }
    }

    /// Counts the statements of a session that write, and waits at the one with the number `pairs.stop`.
    private static let triggers =
        """
        CREATE FUNCTION stop_here() RETURNS trigger LANGUAGE plpgsql AS $$
        DECLARE number int := nullif(current_setting('pairs.stop', true), '')::int;
        BEGIN
            IF number > 0 THEN
                PERFORM set_config('pairs.stop', (number - 1)::text, false);
                IF number = 1 THEN PERFORM pg_advisory_xact_lock_shared(\(gate)); END IF;
            END IF;
            RETURN NULL;
        END $$;
        """
        + tables.map {
            "CREATE TRIGGER stop BEFORE INSERT OR UPDATE OR DELETE ON \($0) FOR EACH STATEMENT EXECUTE FUNCTION stop_here();"
        }.joined(separator: "\n")

    typealias Step = @Sendable (PostgresPool) async throws -> Void

    /// One after the other.
    func run(_ one: Step, then other: Step) async throws {
        try await one(second)
        try await other(second)
    }

    /// - Parameter number: Of the write before which the first one stops, from 1.
    /// - Returns: whether it has so many. If not, both have run one after the other.
    func run(_ one: @escaping Step, stoppedAt number: Int, meanwhile other: @escaping Step) async throws -> Bool {
        try await keeper.session { session in try session.execute("SELECT pg_advisory_lock(\(Self.gate))") }
        try await first.session { session in try session.execute("SELECT set_config('pairs.stop', \("\(number)"), false)") }
        let begun = Progress { [first] in try await one(first) }
        let isStopped = try await eventually { () -> Bool? in
            if try await waits("first", "advisory") { return true }
            return begun.isOver ? false : nil
        }
        let meanwhile = Progress { [second] in try await other(second) }
        _ = try await eventually { () -> Bool? in
            if meanwhile.isOver { return true }
            return try await waits("second", nil) ? true : nil
        }
        try await keeper.session { session in try session.execute("SELECT pg_advisory_unlock(\(Self.gate))") }
        try await begun.result()
        try await meanwhile.result()
        try await first.session { session in try session.execute("SELECT set_config('pairs.stop', '0', false)") }
        return isStopped
    }

    /// Whether a session waits for a lock; of this kind, if one is named.
    private func waits(_ name: String, _ kind: String?) async throws -> Bool {
        try await pool.session { session in
            try session.execute(
                """
                SELECT FROM pg_stat_activity
                WHERE datname = current_database() AND application_name = \(name) AND wait_event_type = 'Lock'
                    AND wait_event = coalesce(\(kind)::text, wait_event)
                """
            ).affected > 0
        }
    }
}

/// A task that says whether it is over.
private final class Progress: Sendable {
    private let ended = Mutex<Result<Void, any Error>?>(nil)

    init(_ body: @escaping @Sendable () async throws -> Void) {
        Task {
            let result: Result<Void, any Error>
            do { result = .success(try await body()) } catch { result = .failure(error) }
            ended.withLock { $0 = result }
        }
    }

    var isOver: Bool { ended.withLock { $0 != nil } }

    func result() async throws {
        try await eventually { ended.withLock { $0 } }.get()
    }
}
