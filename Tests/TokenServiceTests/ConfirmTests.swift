import Broker
import Logging
import Observability
import Postgres
import PushModel
import TestSupport
import Testing

@testable import TokenServiceApps
@testable import TokenServiceKit
@testable import TokenServiceRegistry
@testable import TokenServiceSending

@Suite("What was published is written down in bounded batches; a locked row waits alone", .serialized, .timeLimit(.minutes(5)))
struct ConfirmTests {
    /// A service that publishes nothing by itself, and the writer of one that does, with a pool of their own.
    private static func run(
        lockTimeout: Duration = .milliseconds(100),
        _ body: @escaping @Sendable (RunningService, ConfirmWriter) async throws -> Void
    ) async throws {
        try await RunningService.run(.init(settings: ["RELAY_INTERVAL_MS": "60000"], without: { $0 is Relay })) { running in
            var impatient = running.pool.configuration
            impatient.lockTimeout = lockTimeout
            let pool = PostgresPool(impatient)
            let confirms = ConfirmWriter(
                pool: pool, lease: .seconds(3600), backlog: PublishBacklog(limit: 100_000),
                metrics: PublishingMetrics(PrometheusMetrics()), logger: Logger(label: "test", factory: { _ in LogLines() }),
                onRecorded: {})
            try await withThrowingTaskGroup(of: Void.self) { group in
                group.addTask { try await confirms.run() }
                defer { group.cancelAll() }
                try await body(running, confirms)
            }
            await pool.close()
        }
    }

    /// Jobs that a process has leased and not written down as published, in ascending order.
    private static func jobs(_ count: Int, _ running: RunningService) async throws -> [JobID] {
        let shop = try await running.client.makeApp()
        try await shop.register(installation(1), user: "ada", token: token(1))
        var ids: [PushID] = []
        for _ in 1...count { ids.append(try #require(try await shop.send(#"{"user":"ada"}"#).json.text("id").flatMap { PushID($0) })) }
        try await running.allPublished()
        try await running.execute("UPDATE jobs SET published_at = NULL, free_from = now() + interval '1 hour'")
        return ids.sorted().map { JobID(notification: $0, number: 0) }
    }

    private static func answers(_ jobs: some Sequence<JobID>, isPublished: Bool = true) -> [PublishedJob] {
        jobs.map { PublishedJob(id: $0, isPublished: isPublished, isFirst: true) }
    }

    private static func unpublished(_ running: RunningService) async throws -> Int64 {
        try await running.count(RunningService.unpublishedJobs)
    }

    @Test("Fences that are left over are published in batches, each by one process") func manyFences() async throws {
        try await Self.run { running, confirms in
            _ = try await running.client.makeApp()
            let app = try await running.app()
            try await running.execute(
                """
                INSERT INTO installations (app_id, id, owner_epoch, registered_at, created_at)
                VALUES (\(app.id), \(installation(1)), 1, now(), now())
                """)
            try await running.execute(
                """
                INSERT INTO fences (app_id, installation, epochs_below, created_at, free_from)
                SELECT \(app.id), \(installation(1)), n + 1, now() - interval '1 hour', now() - interval '1 hour'
                    FROM generate_series(1, 1200) AS n
                """)
            let publisher = try Publisher(
                configuration: running.broker, topology: running.topology, logger: Logger(label: "test", factory: { _ in LogLines() }))
            let fences = FencePublisher(
                control: ControlPublisher(stream: publisher, copies: publisher, topology: running.topology, patience: .seconds(60)),
                marks: LowWater(), lease: .seconds(30), onConfirmed: { confirms.published(fences: $0) })
            try await withThrowingTaskGroup(of: Void.self) { group in
                group.addTask { try await publisher.run() }
                defer { group.cancelAll() }
                // Another process has taken some of them over.
                let taken = try await running.pool.transaction { session in
                    try FenceStore(session: session).claim(limit: 500, leaseSeconds: 3600)
                }
                #expect(taken.count == 500)
                #expect(try await fences.publishLeftOver(in: running.pool) == 500)
                #expect(try await fences.publishLeftOver(in: running.pool) == 200)
                // It gives them back.
                try await running.pool.session { session in
                    let store = FenceStore(session: session)
                    try store.release(taken.map(\.id))
                    try session.execute("UPDATE fences SET free_from = now() WHERE published_at IS NULL")
                }
                #expect(try await fences.publishLeftOver(in: running.pool) == 500)
            }
            #expect(try await running.count("SELECT count(*) FROM open_fences") == 0)
        }
    }

    @Test("A locked job waits alone; a caller that waits for its jobs goes on when the last of them is written down")
    func lockedJob() async throws {
        try await Self.run { running, confirms in
            let jobs = try await Self.jobs(20, running)
            let goesOn = Signal<Void>()
            try await running.holding("SELECT FROM jobs WHERE notification = \(jobs[3].notification) FOR UPDATE") {
                Task {
                    await withCheckedContinuation { confirms.ended(Self.answers(jobs[..<18]), reply: JobsReply(jobs: 18, $0)) }
                    goesOn.send()
                }
                _ = try await eventually { try await Self.unpublished(running) == 3 ? true : nil }
                #expect(goesOn.waiting.isEmpty)
                // What ends later does not wait either.
                confirms.ended(Self.answers(jobs[18...]), reply: nil)
                _ = try await eventually { try await Self.unpublished(running) == 1 ? true : nil }
            }
            _ = try await eventually { try await Self.unpublished(running) == 0 ? true : nil }
            try await goesOn.next()
        }
    }

    @Test("Any process may publish a job that the broker did not take, a second later") func notTaken() async throws {
        try await Self.run { running, confirms in
            let jobs = try await Self.jobs(2, running)
            confirms.ended(Self.answers(jobs, isPublished: false), reply: nil)
            _ = try await eventually {
                try await running.count("SELECT count(*) FROM jobs WHERE published_at IS NULL AND free_from <= now()") == 2 ? true : nil
            }
        }
    }

    @Test("One transaction writes a bounded number of settlements") func bound() async throws {
        try await Self.run { running, confirms in
            let shop = try await running.client.makeApp()
            try await shop.register(installation(1), user: "ada", token: token(1))
            let count = ConfirmWriter.maximumBatch * 2 + 1
            try await running.execute(
                """
                INSERT INTO fences (app_id, installation, epochs_below, created_at, free_from)
                SELECT app_id, id, 1, now(), now() + interval '1 hour' FROM installations CROSS JOIN generate_series(1, \(count))
                """)
            let ids: [Int64] = try await running.pool.session { session in
                try session.execute("SELECT id FROM fences ORDER BY id").column("id")
            }
            confirms.published(fences: ids)
            _ = try await eventually {
                try await running.count("SELECT count(*) FROM fences WHERE published_at IS NULL") == 0 ? true : nil
            }
            #expect(try await running.count("SELECT count(DISTINCT published_at) FROM fences") == 3)
        }
    }
}
