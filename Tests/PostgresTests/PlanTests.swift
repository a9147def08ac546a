import Postgres
import TestDatabase
import Testing

@Suite("How long a session keeps a plan", .timeLimit(.minutes(5)))
struct PlanTests {
    /// PostgreSQL calls an immutable function of constants when it plans the statement, and not again (manual 38.7).
    private static let setUp = """
        CREATE SEQUENCE plannings;
        CREATE FUNCTION planning() RETURNS bigint LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN RETURN nextval('plannings'); END $$
        """
    private static let use: PostgresQuery = "SELECT planning() + \(Int64(0))::bigint"

    @Test(
        "A session plans a statement again when the plan's lifetime is over",
        .database, arguments: [(Duration.zero, Int64(3)), (nil, Int64(1))] as [(Duration?, Int64)])
    func plansAgain(lifetime: Duration?, plannings: Int64) async throws {
        let uri = try #require(TestDatabase.current).uri
        let change = { (configuration: inout PostgresConfiguration) in
            configuration.planLifetime = lifetime
            configuration.poolSize = 1
            configuration.sessionSettings = ["plan_cache_mode": "force_generic_plan"]
        }
        try await withPool(uri, change) { pool in
            try await pool.session { session in try session.simple(Self.setUp) }
            for _ in 0..<3 {
                try await pool.session { session in _ = try session.execute(Self.use) }
            }
            let made: Int64 = try await pool.session { session in
                try session.execute("SELECT last_value FROM plannings").only()["last_value"]
            }
            #expect(made == plannings)
        }
    }

    @Test("A session has the settings of its configuration", .database) func settingsApply() async throws {
        let uri = try #require(TestDatabase.current).uri
        try await withPool(uri, { $0.sessionSettings = ["enable_seqscan": "off"] }) { pool in
            let shown: String = try await pool.session { session in
                try session.execute("SHOW enable_seqscan").only()["enable_seqscan"]
            }
            #expect(shown == "off")
        }
    }
}
