import Dispatch
import Postgres
import TestSupport

extension RunningService {
    /// Holds what a query locks while `body` runs, in a transaction of its own.
    /// - Parameter place: The pool from which it takes a connection meanwhile; by itself the test's own.
    func holding<R: Sendable>(
        _ query: PostgresQuery, in place: PostgresPool? = nil, _ body: @Sendable () async throws -> R
    ) async throws -> R {
        let (locked, letGo) = (Signal<Void>(), DispatchSemaphore(value: 0))
        async let holder: Void = (place ?? pool).transaction { session in
            _ = try session.execute(query)
            locked.send(())
            letGo.wait()
        }
        try await locked.next()
        let result: Result<R, any Error>
        do { result = .success(try await body()) } catch { result = .failure(error) }
        letGo.signal()
        try await holder
        return try result.get()
    }

    /// Returns when a statement that begins so has found its rows, and waits for another transaction that has locked them.
    func waits(_ beginning: String) async throws {
        let waiting: PostgresQuery = """
            SELECT count(*) FROM pg_stat_activity
            WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE \(beginning + "%")
            """
        _ = try await eventually { try await count(waiting) == 1 ? true : nil }
    }
}
