import PushModel
import TestSupport
import Testing

@testable import TokenService

@Suite("How much waits to be published", .timeLimit(.minutes(5)))
struct PublishBacklogTests {
    @Test("It is measured again a second later at the earliest, and after ten times as long as it took") func pauses() throws {
        let backlog = PublishBacklog(limit: 10)
        let start = ContinuousClock.now
        let short = try #require(backlog.beginMeasuring(at: start))
        backlog.endMeasuring(short, at: start + .milliseconds(20))
        #expect(backlog.beginMeasuring(at: start + .milliseconds(1019)) == nil)
        let long = try #require(backlog.beginMeasuring(at: start + .milliseconds(1020)))
        // Also one that failed: it took as long.
        backlog.endMeasuring(long, at: start + .milliseconds(3020))
        #expect(backlog.beginMeasuring(at: start + .milliseconds(23_019)) == nil)
        #expect(backlog.beginMeasuring(at: start + .milliseconds(23_020)) != nil)
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
