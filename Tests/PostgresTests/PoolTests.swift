import Postgres
import Synchronization
import TestDatabase
import Testing

@Suite("The pool lends each connection to one caller at a time", .timeLimit(.minutes(5)))
struct PoolTests {
    @Test("The pool grows only when needed") func growsOnDemand() async throws {
        try await withPool { pool in
            #expect(pool.gauges == PostgresPool.Gauges(idle: 0, busy: 0, waiting: 0))
            for _ in 0..<5 { try await pool.session { session in try session.execute("SELECT 1") } }
            #expect(pool.gauges == PostgresPool.Gauges(idle: 1, busy: 0, waiting: 0))
        }
    }

    @Test("The pool never opens more than its size and serves every caller") func boundedSize() async throws {
        try await withPool({ $0.poolSize = 3 }) { pool in
            let pids = try await withThrowingTaskGroup(of: Int32.self) { group in
                for _ in 0..<200 {
                    group.addTask {
                        try await pool.transaction { session in try session.processID() }
                    }
                }
                return try await group.reduce(into: []) { $0.append($1) }
            }
            #expect(pids.count == 200)
            #expect(Set(pids).count <= 3)
            #expect(pool.gauges.busy == 0 && pool.gauges.waiting == 0)
        }
    }

    @Test("A caller that waits too long gets the error that the pool is exhausted") func exhausted() async throws {
        try await withPool({
            $0.poolSize = 1
            $0.checkOutTimeout = .milliseconds(20)
        }) { pool in
            try await whileHeld(pool) {
                let error = try await postgresError { try await pool.session { _ in } }
                #expect(error.code == .poolExhausted)
                #expect(error.isUnavailable && error.isRetriable)
                #expect(pool.gauges == PostgresPool.Gauges(idle: 0, busy: 1, waiting: 0))
            }
            try await pool.session { session in try session.execute("SELECT 1") }
        }
    }

    @Test("The deadline covers the wait for a connection") func waitDeadline() async throws {
        try await withPool({ $0.poolSize = 1 }) { pool in
            try await whileHeld(pool) {
                let error = try await postgresError { try await pool.session(deadline: .milliseconds(20)) { _ in } }
                #expect(error.code == .poolExhausted)
            }
        }
    }

    @Test("The pool serves its callers in the order of their arrival") func arrivalOrder() async throws {
        try await withPool({ $0.poolSize = 1 }) { pool in
            let order = Recorder<Int>()
            try await withThrowingTaskGroup(of: Void.self) { group in
                try await whileHeld(pool) {
                    for number in 0..<10 {
                        group.addTask { try await pool.session { _ in order.record(number) } }
                        await waiting(pool, number + 1)
                    }
                }
                try await group.waitForAll()
            }
            #expect(order.records == Array(0..<10))
        }
    }

    @Test("A task waits in the queue that it is bound to, and the queues take turns") func boundQueues() async throws {
        try await withPool({ $0.poolSize = 1 }) { pool in
            let order = Recorder<String>()
            try await withThrowingTaskGroup(of: Void.self) { group in
                try await whileHeld(pool) {
                    for (number, queue) in ["shop", "shop", "shop", "blog", "blog"].enumerated() {
                        group.addTask {
                            try await PostgresPool.$queue.withValue(queue) { try await pool.session { _ in order.record(queue) } }
                        }
                        await waiting(pool, number + 1)
                    }
                }
                try await group.waitForAll()
            }
            #expect(order.records == ["shop", "blog", "shop", "blog", "shop"])
        }
    }

    @Test("However many statements a caller of a queue has, it has its connection no longer than four may take") func longCaller()
        async throws
    {
        try await withPool({
            // A busy machine runs each statement below well within this.
            $0.statementTimeout = .milliseconds(500)
            $0.answerGrace = .milliseconds(500)
        }) { pool in
            let performed = Recorder<Int>()
            let error = try await postgresError {
                try await PostgresPool.$queue.withValue("shop") {
                    try await pool.session { session in
                        for number in 1...10_000 {
                            try session.execute("SELECT pg_sleep(0.01)")
                            performed.record(number)
                        }
                    }
                }
            }
            let isOfDeadline = if case .deadlineExceeded = error.code { true } else { false }
            #expect(isOfDeadline && !performed.records.isEmpty)
            // One that swallows the error gets no further either.
            let last = try await PostgresPool.$queue.withValue("shop") {
                try await pool.session { session in
                    (1...10_000).filter { _ in (try? session.execute("SELECT pg_sleep(0.01)")) != nil }.count
                }
            }
            #expect(last < 10_000)
            // Nobody waits for the service's own work.
            try await pool.session { session in for _ in 1...50 { try session.execute("SELECT pg_sleep(0.1)") } }
        }
    }

    @Test("A cancelled caller leaves its queue") func cancelledCaller() async throws {
        try await withPool({ $0.poolSize = 1 }) { pool in
            try await whileHeld(pool) {
                let waiter = Task { try await pool.session { _ in } }
                await waiting(pool, 1)
                waiter.cancel()
                await #expect(throws: CancellationError.self) { try await waiter.value }
                #expect(pool.gauges.waiting == 0)
            }
        }
    }

    @Test("The pool does not use a connection again that was left in a transaction") func leftInTransaction() async throws {
        try await withPool({ $0.poolSize = 1 }) { pool in
            let left = try await pool.session { session in
                try session.simple("BEGIN")
                return try session.processID()
            }
            let next = try await pool.session { session in try session.processID() }
            #expect(next != left)
            let again = try await pool.session { session in try session.processID() }
            #expect(again == next)
        }
    }

    @Test("The pool replaces an old connection") func replacesOld() async throws {
        try await withPool({
            $0.poolSize = 1
            $0.maximumLifetime = .zero
        }) { pool in
            let first = try await pool.session { session in try session.processID() }
            let second = try await pool.session { session in try session.processID() }
            #expect(first != second)
        }
    }

    @Test("A session refuses statements after its end") func endedSession() async throws {
        final class Thief: @unchecked Sendable { var session: PostgresSession? }
        try await withPool { pool in
            let thief = Thief()
            try await pool.session { session in thief.session = session }
            let error = #expect(throws: PostgresError.self) { try thief.session?.execute("SELECT 1") }
            #expect(error?.code == .closed)
        }
    }

    @Test("Closing lets busy callers finish and refuses the others") func closesGracefully() async throws {
        let pool = try PostgresPool(configuration { $0.poolSize = 1 })
        let (started, release) = (Signal(), Signal())
        async let busy = pool.session { session in
            started.send()
            release.block()
            return try session.execute("SELECT 7 AS number").only()["number"] as Int32
        }
        await started.wait()
        async let waiter = postgresError { try await pool.session { _ in } }
        await waiting(pool, 1)
        async let closing: Void = pool.close()
        #expect(try await waiter.code == .closed)
        let late = try await postgresError { try await pool.session { _ in } }
        #expect(late.code == .closed)
        release.send()
        await closing
        #expect(try await busy == 7)
        #expect(pool.gauges == PostgresPool.Gauges(idle: 0, busy: 0, waiting: 0))
        await pool.close()
    }

    @Test("Closing ends the connections") func endsConnections() async throws {
        let pool = try PostgresPool(configuration())
        let pid = try await pool.session { session in try session.processID() }
        await pool.close()
        try await withPool { other in
            try await other.session { session in
                let alive: PostgresQuery =
                    "SELECT count(*) FROM pg_stat_activity WHERE pid = \(pid) AND application_name = 'push-tests'"
                while try session.count(alive) > 0 {}
            }
        }
    }

    @Test("A busy pool is healthy as long as answers come") func busyHealth() async throws {
        try await withPool({
            $0.poolSize = 1
            $0.checkOutTimeout = .milliseconds(10)
        }) { pool in
            // The last answer must be less than three seconds old. On a busy machine the first may be older.
            var isHealthy = false
            for _ in 0..<30 where !isHealthy {
                try await pool.session { session in try session.execute("SELECT 1") }
                try await whileHeld(pool) { isHealthy = await pool.isHealthy() }
            }
            #expect(isHealthy)
        }
    }

    /// Runs `body` while the only connection of the pool is in use.
    private func whileHeld(_ pool: PostgresPool, _ body: () async throws -> Void) async throws {
        let (started, release) = (Signal(), Signal())
        async let holder: Void = pool.session { _ in
            started.send()
            release.block()
        }
        await started.wait()
        do {
            try await body()
        } catch {
            release.send()
            throw error
        }
        release.send()
        try await holder
    }

    private func waiting(_ pool: PostgresPool, _ count: Int) async {
        while pool.gauges.waiting < count { await Task.yield() }
    }

    private func configuration(_ change: (inout PostgresConfiguration) -> Void = { _ in }) throws -> PostgresConfiguration {
        var configuration = try TestServer.configuration(uri: TestServer.uri())
        change(&configuration)
        return configuration
    }

    private func withPool(_ change: (inout PostgresConfiguration) -> Void = { _ in }, _ body: (PostgresPool) async throws -> Void)
        async throws
    {
        try await PostgresTests.withPool(TestServer.uri(), change, body)
    }
}
