import Postgres
import PushModel
import TestSupport
import Testing

@testable import TokenService

@Suite("How much waits to be published", .timeLimit(.minutes(5)))
struct PublishBacklogTests {
    @Test("It is measured again a second later at the earliest, and after ten times as long as it took") func pauses() throws {
        let (backlog, start) = (PublishBacklog(limit: 10), ContinuousClock.now)
        func mayBegin(after milliseconds: Int) -> Bool { backlog.beginMeasuring(at: start + .milliseconds(milliseconds)) != nil }
        let short = try #require(backlog.beginMeasuring(at: start))
        backlog.endMeasuring(short, at: start + .milliseconds(20))
        #expect(!mayBegin(after: 1019))
        let long = try #require(backlog.beginMeasuring(at: start + .milliseconds(1020)))
        // Also one that failed: it took as long.
        backlog.endMeasuring(long, at: start + .milliseconds(3020))
        #expect(!mayBegin(after: 23_019))
        #expect(mayBegin(after: 23_020))
    }

    /// The search compares each app and lane with each exception.
    @Test("However many apps have waited for long, the search for work has few beginnings of its own, and finds all of it")
    func manyExceptions() async throws {
        try await RunningService.run(.init(without: { $0 is Relay })) { running in
            _ = try await running.client.makeApp()
            let app = try await running.app()
            let (key, now) = (AppLane(app: app.slug, lane: .bulk), UnixTime.milliseconds())
            try await running.execute(
                """
                INSERT INTO jobs (notification, number, app_id, lane, locale, due_at, members, free_from)
                SELECT first_id_at(now()), 0, \(app.id), 'bulk', '', now(), int8send(1), \(milliseconds: now - 3_600_000)
                """)
            for others in [OutboxStore.Beginnings.maximumExceptions - 1, OutboxStore.Beginnings.maximumExceptions] {
                var oldest = [key: now - 3_600_000]
                for number in 0..<others {
                    oldest[AppLane(app: try #require(AppSlug("app-\(number)")), lane: .bulk)] = now - 1_800_000
                }
                let (marks, none) = (LowWater<AppLane>(), LowWater<AppLane>())
                marks.found(oldest, at: now)
                none.found([:], at: now)
                let (jobs, fanOuts) = (marks.marks, none.marks)
                let from = OutboxStore.Beginnings(jobs: jobs, fanOuts: fanOuts)
                #expect(from.exceptions.count == (others < OutboxStore.Beginnings.maximumExceptions ? others + 1 : 0))
                #expect(from.fanOuts == fanOuts.floor)
                let found = try await running.pool.session { session in
                    try OutboxStore(session: session).waiting(jobs: jobs, fanOuts: fanOuts).found
                }
                #expect(found.map(\.key) == [key], "beside \(others)")
                #expect(found.first?.job == now - 3_600_000)
            }
        }
    }

    @Test("The many jobs of a fan-out hide no other notification") func behindFanOut() async throws {
        try await RunningService.run(.init(without: { $0 is Relay })) { running in
            _ = try await running.client.makeApp()
            let app = try await running.app()
            try await running.execute(
                """
                INSERT INTO jobs (notification, number, app_id, lane, locale, due_at, members, free_from)
                SELECT first_id_at(now()), n, \(app.id), 'bulk', '', now(), int8send(n), now() - interval '1 minute' + n * interval '1 second'
                FROM generate_series(0, 20) AS n
                """)
            try await running.execute(
                """
                INSERT INTO jobs (notification, number, app_id, lane, locale, due_at, members, free_from)
                SELECT gen.id, 0, \(app.id), 'bulk', '', now(), int8send(n), now()
                FROM generate_series(1, 3) AS n, LATERAL (
                    SELECT (left(first_id_at(now())::text, 24) || lpad(n::text, 12, '0'))::uuid AS id) AS gen
                """)
            let key = AppLane(app: app.slug, lane: .bulk)
            let sizes = try await running.pool.session { session in
                try OutboxStore(session: session).backlog(of: [key], limit: 10, leaseSeconds: 30)
            }
            #expect(sizes == [key: 4])
        }
    }
}
