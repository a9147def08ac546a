import Postgres
import TestDatabase
import Testing

@Suite("A test's database does not outlive the test", .timeLimit(.minutes(5)))
struct TestDatabaseTests {
    private struct Failure: Error {}

    @Test("The database is dropped when its test passes, fails or is cancelled") func dropped() async throws {
        var names = [try await withTestDatabase { pool, _ in try await Self.name(pool) }]

        let failed = Recorder<String>()
        await #expect(throws: Failure.self) {
            try await withTestDatabase { pool, _ in
                failed.record(try await Self.name(pool))
                throw Failure()
            }
        }

        let cancelled = Recorder<String>()
        let (started, over) = (Signal(), Signal())
        let task = Task {
            try await withTestDatabase { pool, _ in
                cancelled.record(try await Self.name(pool))
                started.send()
                await over.wait()
                try Task.checkCancellation()
            }
        }
        await started.wait()
        task.cancel()
        over.send()
        await #expect(throws: CancellationError.self) { try await task.value }

        names += failed.records + cancelled.records
        #expect(Set(names).count == 3)
        let left = try await withPool(TestServer.uri()) { [names] pool in
            try await pool.session { session in
                try session.execute("SELECT datname::text FROM pg_database WHERE datname = ANY (\(names))").count
            }
        }
        #expect(left == 0)
    }

    private static func name(_ pool: PostgresPool) async throws -> String {
        try await pool.session { session in try session.execute("SELECT current_database()").only()["current_database"] }
    }
}
