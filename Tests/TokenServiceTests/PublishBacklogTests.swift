import Postgres
import PushModel
import TestSupport
import Testing

@testable import TokenServiceApps
@testable import TokenServiceKit
@testable import TokenServiceSending

@Suite("How much waits to be published", .timeLimit(.minutes(5)))
struct PublishBacklogTests {
    @Test("It is measured again a second later at the earliest, and after ten times as long as it took") func pauses() throws {
        let (backlog, start) = (PublishBacklog(limit: 10), ContinuousClock.now)
        func mayBegin(after milliseconds: Int) -> Bool { backlog.beginMeasuring(at: start + .milliseconds(milliseconds)) != nil }
        let short = try #require(backlog.beginMeasuring(at: start))
        backlog.endMeasuring(short, at: start + .milliseconds(20))
        #expect(!mayBegin(after: 1019))
        let long = try #require(backlog.beginMeasuring(at: start + .milliseconds(1020)))
        #expect(!mayBegin(after: 100_000), "one is under way")
        // Also one that failed: it took as long.
        backlog.endMeasuring(long, at: start + .milliseconds(3020))
        #expect(!mayBegin(after: 23_019))
        #expect(mayBegin(after: 23_020))
    }

    @Test("A count is taken for its own app and lane, unless more or fewer wait there since it began") func counts() throws {
        let (backlog, slug) = (PublishBacklog(limit: 10), try #require(AppSlug("shop")))
        let (key, other) = (AppLane(app: slug, lane: .now), AppLane(app: slug, lane: .bulk))
        for key in [key, other] {
            try backlog.admit(key)
            backlog.endAcceptance(key, waits: true)
        }
        let moment = backlog.moment
        backlog.measured(5, of: key, since: moment)
        #expect(backlog.count(of: .now) == 5 && backlog.count(of: .bulk) == 1)
        backlog.shrank(key, by: 1)
        backlog.measured(7, of: key, since: moment)
        backlog.measured(3, of: other, since: moment)
        #expect(backlog.count(of: .now) == 4 && backlog.count(of: .bulk) == 3)
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
            for others in [LowWater<AppLane>.Beginnings.maximumExceptions - 1, LowWater<AppLane>.Beginnings.maximumExceptions] {
                var oldest = [key: now - 3_600_000]
                for number in 0..<others {
                    oldest[AppLane(app: try #require(AppSlug("app-\(number)")), lane: .bulk)] = now - 1_800_000
                }
                let water = LowWater<AppLane>()
                water.found(oldest, at: now)
                let marks = water.marks
                let from = LowWater<AppLane>.Beginnings(marks)
                #expect(from.exceptions.count == (others < LowWater<AppLane>.Beginnings.maximumExceptions ? others + 1 : 0))
                let found = try await running.pool.session { session in
                    try WaitingWorkStore(session: session).waitingJobs(from: marks).found
                }
                #expect(found.map(\.key) == [key], "beside \(others)")
                #expect(found.first?.free == now - 3_600_000)
            }
        }
    }

    @Test("The many jobs of a fan-out hide no other notification, and are not read") func behindFanOut() async throws {
        try await RunningService.run(.init(without: { $0 is Relay })) { running in
            _ = try await running.client.makeApp()
            let app = try await running.app()
            try await running.execute(
                """
                INSERT INTO jobs (notification, number, app_id, lane, locale, due_at, members, free_from)
                SELECT first_id_at(now()), n, \(app.id), 'bulk', '', now(), int8send(n),
                    now() - interval '1 minute' + n * interval '1 millisecond'
                FROM generate_series(0, 2000) AS n
                """)
            try await running.execute(
                """
                INSERT INTO jobs (notification, number, app_id, lane, locale, due_at, members, free_from)
                SELECT gen.id, 0, \(app.id), 'bulk', '', now(), int8send(n), now()
                FROM generate_series(1, 3) AS n, LATERAL (
                    SELECT (left(first_id_at(now())::text, 24) || lpad(n::text, 12, '0'))::uuid AS id) AS gen
                """)
            let key = AppLane(app: app.slug, lane: .bulk)
            let (waiting, read) = try await running.pool.transaction { session in
                let before = try session.entriesReadHere(of: "jobs_unpublished")
                let waiting = try WaitingWorkStore(session: session).backlog(of: key, limit: 10, leaseSeconds: 30)
                return (waiting, try session.entriesReadHere(of: "jobs_unpublished") - before)
            }
            #expect(waiting == 4 && read < 50, "\(waiting) wait, \(read) entries read")
        }
    }
}
