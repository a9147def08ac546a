import Broker
import Observability
import Postgres
import PushModel
import RabbitMQ
import Synchronization
import TestBroker
import TestSupport
import Testing

@testable import TokenService
@testable import TokenServiceApps
@testable import TokenServiceKit
@testable import TokenServiceSending

@Suite("One app's work in one lane takes nothing of another app or lane", .serialized, .timeLimit(.minutes(5)))
struct LaneShareTests {
    @Test("A queue of `bulk` that takes nothing fills the backlog of its app and lane alone, and the service stays ready")
    func fullLane() async throws {
        try await RunningService.run(.init(settings: ["BROKER_TOPOLOGY": "operators", "BACKLOG_LIMIT": "5"])) { running in
            let queue = running.topology.jobQueue(.bulk)
            try await TestBroker.withConnection(running.broker) { try $0.deleteQueue(queue) }
            let shop = try await running.client.makeApp()
            let other = try await running.client.makeApp("other")
            try await shop.register(installation(1), user: "ada", token: token(1))
            try await other.register(installation(2), user: "ada", token: token(2), app: "other")
            let bulk = #","lane":"bulk""#
            for _ in 1...5 { #expect(try await shop.send(#"{"user":"ada"}"#, more: bulk).status == 202) }
            let refused = try await shop.send(#"{"user":"ada"}"#, more: bulk)
            #expect(refused.code == "backlog_full")
            // It stays so when the database has been asked how much waits.
            _ = try await eventually { running.metrics.render().contains(#"publish_backlog{lane="bulk"} 5"#) ? true : nil }
            #expect(try await shop.send(#"{"user":"ada"}"#, more: bulk).code == "backlog_full")
            #expect(try await shop.send(#"{"user":"ada"}"#).status == 202)
            #expect(try await other.send(#"{"user":"ada"}"#, app: "other", more: bulk).status == 202)
            #expect(try await other.send(#"{"user":"ada"}"#, app: "other").status == 202)
            #expect(try await running.client.get("/readyz").status == 200)
        }
    }

    @Test("Jobs of a fan-out that become due at one moment refuse no notification") func dueAtOnce() async throws {
        try await RunningService.run(.init(settings: ["BACKLOG_LIMIT": "5", "RELAY_INTERVAL_MS": "60000"])) { running in
            let shop = try await running.client.makeApp()
            try await shop.register(installation(1), user: "ada", token: token(1))
            let id = try #require(try await shop.send(#"{"user":"ada"}"#).json.text("id").flatMap { PushID($0) })
            try await running.allPublished()
            try await running.execute(
                """
                INSERT INTO jobs (notification, number, app_id, lane, locale, due_at, members, free_from)
                SELECT notification, n, app_id, lane, locale, now(), members, now() + interval '5 seconds'
                FROM jobs, generate_series(1, 50) AS n WHERE notification = \(id) AND number = 0
                """)
            let sizes = try await running.pool.session { session in
                try WaitingWorkStore(session: session).backlogOfAll(limit: 100, leaseSeconds: 60)
            }
            #expect(sizes.isEmpty)
            for _ in 1...5 { #expect(try await shop.send(#"{"user":"ada"}"#).status == 202) }
        }
    }

    @Test("A relay takes some jobs of every app, however many wait for one") func everyApp() async throws {
        try await RunningService.run(.init(without: { $0 is Relay || $0 is Publisher })) { running in
            let shop = try await running.client.makeApp()
            let other = try await running.client.makeApp("other")
            try await shop.register(installation(1), user: "ada", token: token(1))
            try await other.register(installation(2), user: "ada", token: token(2), app: "other")
            let flood = try #require(try await shop.send(#"{"user":"ada"}"#).json.text("id").flatMap { PushID($0) })
            try await running.execute(
                """
                INSERT INTO jobs (notification, number, app_id, lane, locale, due_at, members, free_from)
                SELECT notification, n, app_id, lane, locale, now(), members, now()
                FROM jobs, generate_series(1, 500) AS n WHERE notification = \(flood)
                """)
            let one = try #require(try await other.send(#"{"user":"ada"}"#, app: "other").json.text("id").flatMap { PushID($0) })
            try await running.execute("UPDATE jobs SET free_from = now() WHERE notification = \(one)")
            let claimed = try await running.pool.transaction { session in
                try JobStore(session: session).claimFree(10, of: .now, leaseSeconds: 60)
            }
            #expect(claimed.contains { $0.notification == one })
            #expect(claimed.count == 6)
        }
    }

    @Test("Long fan-outs of one app let another app's fan-out have its turn") func turns() async throws {
        let options = RunningService.Options(settings: ["FAN_OUT_PAGE_INSTALLATIONS": "100"])
        try await RunningService.run(options) { running in
            let shop = try await running.client.makeApp()
            let other = try await running.client.makeApp("other")
            try await running.fill(20_000, app: try await running.app())
            try await other.register(installation(2), user: "ada", token: token(2), app: "other")
            for _ in 1...3 { #expect(try await shop.send(#"{"all":true}"#).status == 202) }
            _ = try await eventually { try await running.count("SELECT count(*) FROM fan_outs WHERE checkpoint > 0") >= 2 ? true : nil }
            let id = try #require(try await other.send(#"{"all":true}"#, app: "other").json.text("id").flatMap { PushID($0) })
            // The moment at which the other app's ended, and how many of the first one's had ended before.
            let ended: Int64 = try await eventually {
                try await running.count("SELECT count(*) FROM fan_outs WHERE notification = \(id) AND ended_at IS NOT NULL") == 1
                    ? try await running.count(
                        """
                        SELECT count(*) FROM fan_outs f, fan_outs o
                        WHERE o.notification = \(id) AND f.notification <> o.notification AND f.ended_at < o.ended_at
                        """) : nil
            }
            #expect(ended == 0)
        }
    }

    // MARK: An open snapshot

    private final class Snapshot: Sendable {
        let isOpen = Atomic(false)
        let isOver = Atomic(false)
        let began = Atomic<Int64>(0)
    }

    private static func key(_ lane: Lane = .now) throws -> AppLane { AppLane(app: try #require(AppSlug("shop")), lane: lane) }

    @Test("Beside an open snapshot, a search for work reads no job that was published before the last search") func openSnapshot()
        async throws
    {
        try await RunningService.run(.init(without: { $0 is Relay || $0 is Publisher })) { running in
            _ = try await running.client.makeApp()
            let app = try await running.app()
            try await running.execute(
                """
                INSERT INTO jobs (notification, number, app_id, lane, locale, due_at, members, free_from)
                SELECT '00000000-0000-7000-8000-000000000001', n, \(app.id), 'now', '', now(), int8send(n), now() - interval '2 minutes'
                FROM generate_series(0, 2999) AS n
                """)
            let (key, others) = (try Self.key(), PostgresPool(running.pool.configuration))
            let snapshot = Snapshot()
            try await withThrowingTaskGroup(of: Void.self) { group in
                group.addTask {
                    try await others.transaction(isolation: .repeatableRead) { session in
                        _ = try session.execute("SELECT count(*) FROM jobs")
                        snapshot.isOpen.store(true, ordering: .releasing)
                        while !snapshot.isOver.load(ordering: .acquiring) { try session.execute("SELECT pg_sleep(0.02)") }
                    }
                }
                defer { snapshot.isOver.store(true, ordering: .releasing) }
                _ = try await eventually { snapshot.isOpen.load(ordering: .acquiring) ? true : nil }
                let (unmarked, marked, claimed) = try await running.pool.session { session in
                    func read(_ body: () throws -> Void) throws -> Int64 {
                        let before = try session.entriesRead(of: "jobs")
                        try body()
                        return try session.entriesRead(of: "jobs") - before
                    }
                    let (store, marks) = (WaitingWorkStore(session: session), OutboxMarks())
                    try session.execute("UPDATE jobs SET published_at = now()")
                    let unmarked = try read {
                        let (now, found) = try store.waitingJobs()
                        #expect(found.isEmpty)
                        marks.jobs.found([:], at: now)
                    }
                    let marked = try read {
                        #expect(try store.waitingJobs(from: marks.jobs.marks).found.isEmpty)
                        _ = try store.backlog(of: key, jobs: marks.jobs.marks[key], limit: 100, leaseSeconds: 30)
                    }
                    let claimed = try read {
                        _ = try session.transaction { session in
                            try JobStore(session: session).claim(
                                10, of: .now, among: [.init(app: app.id, from: marks.jobs.marks[key])], leaseSeconds: 30)
                        }
                    }
                    return (unmarked, marked, claimed)
                }
                #expect(unmarked >= 3000 && marked < 50 && claimed < 50, "\(unmarked), \(marked) and \(claimed) entries read")
            }
            await others.close()
        }
    }

    @Test("What waits is found again and again, whatever the marks, and what is written after a search is found by the next one")
    func marks() throws {
        let marks = LowWater<AppLane>()
        let (key, other) = (try Self.key(), try Self.key(.bulk))
        marks.found([key: 5_000], at: 1_000_000)
        #expect(marks.marks[key] == 5_000)
        // A transaction that began a minute ago may commit now.
        #expect(marks.marks[other] == 940_000)
        #expect(marks.marks.lowest == 5_000)
        marks.found([key: 999_999], at: 1_000_001)
        #expect(marks.marks[key] == 940_001)
        // A new primary's clock is behind.
        marks.found([:], at: 500_000)
        #expect(marks.marks[key] == 440_000)
    }

    private static let tooLong = PostgresError(.sqlState(.queryCanceled), operation: "execute", message: "too long")
    private static let away = PostgresError(.connectionFailed, operation: "connect", message: "away")

    /// - Returns: where the search began.
    private static func search(
        _ marks: LowWater<AppLane>, at instant: ContinuousClock.Instant = .now, found: [AppLane: Int64] = [:],
        failing error: PostgresError? = nil
    ) async throws -> Int64 {
        var began: Int64 = -1
        do {
            try await marks.search(at: instant) { from in
                began = from.lowest
                if let error { throw error }
                return (1_000_000, found, ())
            }
        } catch let thrown as PostgresError { #expect(thrown == error) }
        return began
    }

    @Test("Now and then a search begins at the very beginning: once, so that one that takes too long is not repeated") func wholeSearch()
        async throws
    {
        let marks = LowWater<AppLane>()
        marks.found([:], at: 500_000)
        let later = ContinuousClock.now + .seconds(700)
        #expect(try await Self.search(marks, at: later, failing: Self.tooLong) == 0)
        #expect(try await Self.search(marks, at: later, failing: Self.tooLong) == 440_000)
    }

    @Test("From a lower beginning of another process one search begins, however long it takes; an outage is no search") func lowered()
        async throws
    {
        let marks = OutboxMarks()
        marks.start(at: [.jobs: .init(at: 5_000, mostAt: 900_000)])
        #expect(try await Self.search(marks.jobs, failing: Self.away) == 5_000)
        #expect(marks.records[.jobs] == LowWaterRecord(at: 5_000, mostAt: 900_000))
        #expect(try await Self.search(marks.jobs, failing: Self.tooLong) == 5_000)
        #expect(try await Self.search(marks.jobs) == 900_000)
        #expect(marks.records[.jobs] == LowWaterRecord(at: 940_000, mostAt: 940_000))
        marks.lower(to: [.jobs: .init(at: 7_000, mostAt: 7_000)])
        #expect(try await Self.search(marks.jobs, failing: Self.away) == 7_000)
        #expect(try await Self.search(marks.jobs, found: [try Self.key(): 8_000]) == 7_000)
        #expect(marks.jobs.marks[try Self.key()] == 8_000)
    }

    @Test("If a search from the marks takes too long, the next one begins where most keys have nothing older; the rest is looked for soon")
    func rowsGivenUp() async throws {
        let marks = LowWater<AppLane>()
        marks.found([try Self.key(): 8_000], at: 1_000_000)
        #expect(try await Self.search(marks, failing: Self.away) == 8_000)
        #expect(try await Self.search(marks, failing: Self.tooLong) == 8_000)
        #expect(try await Self.search(marks) == 940_000)
        #expect(try await Self.search(marks, at: .now + .seconds(70), found: [try Self.key(): 8_000]) == 0)
        #expect(marks.marks[try Self.key()] == 8_000)
    }

    @Test("Other processes are told of every kind of marks") func everyKind() {
        let marks = OutboxMarks()
        #expect(Mirror(reflecting: marks).children.count == OutboxMarks.Kind.allCases.count)
        #expect(marks.records.count == OutboxMarks.Kind.allCases.count)
        marks.jobs.found([:], at: 1_000_000)
        marks.fanOuts.found([:], at: 2_000_000)
        marks.fences.found([:], at: 3_000_000)
        marks.unpublished.found([:], at: 4_000_000)
        marks.unhastened.found([:], at: 5_000_000)
        let ats = [OutboxMarks.Kind.jobs, .fanOuts, .fences, .unpublished, .unhastened].map { marks.records[$0]?.at }
        #expect(ats == [940_000, 1_940_000, 2_940_000, 3_940_000, 4_940_000])
    }

    @Test("However long a transaction takes to end, what it has written is found afterwards") func longCommit() async throws {
        try await RunningService.run(.init(without: { $0 is Relay || $0 is Publisher })) { running in
            _ = try await running.client.makeApp()
            let app = try await running.app()
            let (others, snapshot, marks) = (PostgresPool(running.pool.configuration), Snapshot(), OutboxMarks())
            @Sendable func search() async throws -> (now: Int64, found: [WaitingWorkStore.Waiting]) {
                try await running.pool.session { session in try WaitingWorkStore(session: session).waitingJobs(from: marks.jobs.marks) }
            }
            try await withThrowingTaskGroup(of: Void.self) { group in
                group.addTask {
                    try await others.transaction { session in
                        try session.execute(
                            """
                            INSERT INTO jobs (notification, number, app_id, lane, locale, due_at, members, free_from)
                            VALUES ('00000000-0000-7000-8000-000000000001', 0, \(app.id), 'now', '', now(), int8send(1), now())
                            """)
                        let began: Int64 = try session.execute("SELECT now() AS now").only().milliseconds("now")
                        snapshot.began.store(began, ordering: .relaxed)
                        snapshot.isOpen.store(true, ordering: .releasing)
                        while !snapshot.isOver.load(ordering: .acquiring) { try session.execute("SELECT pg_sleep(0.02)") }
                    }
                }
                defer { snapshot.isOver.store(true, ordering: .releasing) }
                _ = try await eventually { snapshot.isOpen.load(ordering: .acquiring) ? true : nil }
                let before = try await search()
                #expect(before.found.isEmpty)
                // It would be the search's own moment, whatever had begun before.
                #expect(before.now <= snapshot.began.load(ordering: .relaxed))
                marks.jobs.found([:], at: before.now)
                snapshot.isOver.store(true, ordering: .releasing)
                try await group.waitForAll()
                #expect(try await search().found.count == 1)
            }
            await others.close()
        }
    }

    @Test("A process that starts begins where others were, and finds what waits") func exchanged() async throws {
        try await RunningService.run(.init(without: { $0 is Relay || $0 is Publisher })) { running in
            let shop = try await running.client.makeApp()
            try await shop.register(installation(1), user: "ada", token: token(1))
            _ = try await shop.send(#"{"user":"ada"}"#)
            try await running.execute("UPDATE jobs SET free_from = now()")
            let found = try await running.pool.session { session in
                let (store, marks, next) = (WaitingWorkStore(session: session), OutboxMarks(), OutboxMarks())
                let (now, found) = try store.waitingJobs()
                marks.jobs.found(Dictionary(uniqueKeysWithValues: found.compactMap { work in work.free.map { (work.key, $0) } }), at: now)
                // An hour ahead: a clock that was wrong.
                try store.record(
                    lowWater: marks.records.mapValues { .init(at: $0.at + 3_600_000, mostAt: $0.mostAt + 3_600_000) })
                next.start(at: try store.lowWater())
                return try store.waitingJobs(from: next.jobs.marks).found
            }
            #expect(found.count == 1)
        }
    }

    @Test("A process knows where waiting rows of every kind begin before any of its services looks for them") func knownAtStart()
        async throws
    {
        try await RunningService.run(.init(without: { $0 is Relay })) { running in
            let kinds = OutboxMarks.Kind.allCases
            try await running.execute(
                """
                INSERT INTO low_water (kind, at, most_at)
                SELECT kind, now() - interval '1 hour', now() - interval '1 hour' FROM unnest(\(kinds.map(\.rawValue))::text[]) AS kind
                """)
            let marks = OutboxMarks()
            let startup = Startup(
                pool: running.pool, keys: KeyStore(pool: running.pool), bootstrapKey: nil, marks: MarkExchange(marks),
                migrator: try Schema.migrator(), logger: LogLines().logger)
            await withTaskGroup(of: Void.self) { group in
                group.addTask { try? await startup.run() }
                #expect(await startup.isDone())
                group.cancelAll()
            }
            #expect(kinds.filter { marks.records[$0]?.at ?? 0 > 0 } == kinds)
        }
    }
}
