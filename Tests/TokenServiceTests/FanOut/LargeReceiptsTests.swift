import Postgres
import PushModel
import StrictJSON
import TestSupport
import Testing

@testable import TokenService
@testable import TokenServiceApps
@testable import TokenServiceEvents
@testable import TokenServiceKit
@testable import TokenServiceOutcomes
@testable import TokenServiceSending
@testable import TokenServiceUpkeep

/// Right after a large audience with a receipt for each delivery, the planner still believes that a notification has one job and one
/// receipt.
@Suite("What a large audience with receipts makes the database read", .timeLimit(.minutes(5)))
struct LargeReceiptsTests {
    private static let devices = 3000
    private static let page = 1500
    /// Outcomes of one batch.
    private static let batch = 500
    /// Nothing else reads jobs and receipts.
    private static let still = RunningService.Options(without: { $0 is Relay || $0 is LaneWaits })

    @Test("A page reads none of the notification's jobs and receipts", arguments: ["{rare}", "{}"])
    func pages(tags: String) async throws {
        try await RunningService.run(Self.still) { running in
            let shop = try await running.client.makeApp()
            try await running.fill(Self.devices, app: try await running.app())
            try await running.execute("UPDATE installations SET tags = \(tags)::text[]")
            try await Self.analyzeSingles(running)
            let target = tags == "{}" ? #"{"all":true}"# : #"{"tags":"rare"}"#
            let id = try #require(try await shop.send(target, more: #","receipts":"all""#).json.text("id").flatMap { PushID($0) })
            let (found, read) = try await running.service.pool.session { session in
                func next() throws -> (found: Int, read: Int64) {
                    let before = try Self.read(session)
                    let found = try session.transaction { session in
                        let store = FanOutStore(session: session)
                        let audience = try #require(try store.fanOut(of: id))
                        let now = UnixTime.milliseconds()
                        let page = try store.page(of: audience, installations: Self.page, names: DeliveryNames(id), now: now)
                        try store.commit(page, of: audience, leaseSeconds: 60, now: now)
                        return page.count
                    }
                    return (found, try Self.read(session) - before)
                }
                let (first, second) = (try next(), try next())
                return ([first.found, second.found], second.read)
            }
            #expect(found == [Self.page, Self.page])
            #expect(read <= Int64(Self.page / PushJob.maximumDeliveries), "at most the jobs that it makes")
        }
    }

    @Test("A job that is resolved anew looks its own members up") func jobs() async throws {
        try await RunningService.run(Self.still) { running in
            let shop = try await running.client.makeApp()
            try await running.fill(Self.devices, app: try await running.app())
            try await Self.analyzeSingles(running)
            let id = try #require(
                try await shop.send(#"{"all":true}"#, more: #","receipts":"all""#).json.text("id").flatMap { PushID($0) })
            let (left, read, tokens) = try await running.service.pool.session { session in
                let store = FanOutStore(session: session)
                let audience = try #require(try store.fanOut(of: id))
                let now = UnixTime.milliseconds()
                let page = try store.page(of: audience, installations: Self.devices, names: DeliveryNames(id), now: now)
                try session.transaction { _ in try store.commit(page, of: audience, leaseSeconds: 0, now: now) }
                // All but the first member of each job have their outcome.
                try session.execute("UPDATE jobs SET ended = set_bit(~B'0'::bit(100), 0, 0)")
                try session.execute(
                    """
                    INSERT INTO receipts (notification, number, position, token_id, installation, owner_epoch, environment, class,
                        updated_at)
                    SELECT j.notification, j.number, m.position, m.token_id, gen_random_uuid(), 1, 'production', 'accepted', now()
                    FROM jobs j CROSS JOIN LATERAL members_of(j) AS m WHERE m.has_ended
                    """)
                let claimed = try JobStore(session: session).claimFree(1, of: .bulk, leaseSeconds: 60)
                #expect(claimed.count == 1)
                let (before, tokens) = (try Self.read(session), try session.rowsRead(of: "tokens"))
                let left = try JobStore(session: session).resolve(claimed, now: now).map(\.deliveries.count)
                return (left, try Self.read(session) - before, try session.rowsRead(of: "tokens") - tokens)
            }
            #expect(left == [1], "all others have their outcome")
            #expect(read == 1, "its own job")
            #expect(tokens <= Int64(PushJob.maximumDeliveries))
        }
    }

    @Test("An outcome looks its own job and receipt up, and not all of its notification", arguments: [false, true])
    func appliedOutcomes(isFinal: Bool) async throws {
        try await RunningService.run(Self.still) { running in
            let shop = try await running.client.makeApp()
            try await running.fill(Self.batch, app: try await running.app())
            try await Self.analyzeSingles(running)
            let id = try #require(try await shop.send(#"{"user":"nobody"}"#).json.text("id").flatMap { PushID($0) })
            try await Self.makeLarge(id, running)
            let (settled, read) = try await running.service.pool.session { session in
                // A final outcome finds the receipt of an attempt before.
                if isFinal { _ = try Self.apply(Self.outcomes(of: id, isFinal: false), session) }
                let before = try Self.read(session)
                let settled = try Self.apply(Self.outcomes(of: id, isFinal: isFinal), session)
                return (settled, try Self.read(session) - before)
            }
            #expect(settled == (isFinal ? Self.batch : 0))
            #expect(read <= 5000)
            let written = try await running.count(
                "SELECT count(*) FROM receipts WHERE notification = \(id) AND attempts > 0 AND (class IS NOT NULL) = \(isFinal)")
            #expect(written == Int64(Self.batch))
        }
    }

    /// Where all ended in one way, a search of the receipts for another way reads every one of them.
    @Test("The last outcomes end a notification by its counts", arguments: ["all", "failures"]) func lastOutcomes(receipts: String)
        async throws
    {
        try await RunningService.run(Self.still) { running in
            let shop = try await running.client.makeApp()
            try await running.fill(Self.batch, app: try await running.app())
            try await Self.analyzeSingles(running)
            let id = try #require(
                try await shop.send(#"{"user":"nobody"}"#, more: #","receipts":"\#(receipts)""#).json.text("id").flatMap { PushID($0) })
            try await Self.makeLarge(id, running)
            try await running.execute("UPDATE receipts SET class = 'expired', reason = 'expired_before_publishing'")
            try await running.execute(
                "UPDATE notifications SET outcomes = ARRAY[ROW('expired', NULL, 'expired_before_publishing', 99500)::outcome_count]")
            let (settled, read) = try await running.service.pool.session { session in
                let before = try Self.read(session)
                let last = try Self.outcomes(of: id, isFinal: true, as: .expired, reason: "expired_before_publishing")
                let settled = try Self.apply(last, session)
                return (settled, try Self.read(session) - before)
            }
            #expect(settled == Self.batch)
            #expect(read <= 5000)
            let status = try await shop.status(id.description)
            #expect(status.text("state") == "expired" && status["completed_at"] != nil)
            #expect(status["counts"]?.number("expired") == 100_000 && status["reasons"]?.arrayValue?.count == 1)
        }
    }

    @Test("Its status, its last event and another user's export read few of its receipts") func readers() async throws {
        try await RunningService.run(Self.still) { running in
            let shop = try await running.client.makeApp()
            let app = try await running.app()
            try await running.fill(Self.batch, app: app)
            try await Self.analyzeSingles(running)
            let id = try #require(
                try await shop.send(#"{"users":["nobody","eve"]}"#, more: #","receipts":"all""#).json.text("id").flatMap { PushID($0) })
            try await Self.makeLarge(id, running)
            try await running.execute(
                "INSERT INTO notification_events (app_id, notification, event, at) VALUES (\(app.id), \(id), 'completed', now())")
            try await running.service.pool.session { session in
                var before = try Self.read(session)
                let status = try #require(
                    try session.transaction { session in try NotificationReading(session: session, app: app).status(of: id) })
                #expect(status.counts["accepted"] == 99_500 && status.deliveries.count == NotificationStatus.maximumDeliveries)
                #expect(status.deliveries.count { $0.outcome == nil } == Self.batch)
                #expect(try Self.read(session) - before < 20_000)

                before = try session.rowsRead(of: "receipts")
                let entries = try EventStore(session: session).entries(of: .notifications, after: 0, upTo: .max, apps: [app.id], limit: 10)
                let last = try #require(entries.last)
                #expect(String(decoding: last.event.encoded(), as: UTF8.self).contains(#""accepted":99500"#))
                #expect(try session.rowsRead(of: "receipts") - before == 0)

                let page = try UserExportStore(session, app: app, user: "eve").deliveries(of: id, isToMany: true, after: .first)
                #expect(page.items.isEmpty)
                #expect(try session.rowsRead(of: "receipts") - before == 0)
            }
        }
    }

    /// Rows of jobs and receipts that were read so far.
    private static func read(_ session: PostgresSession) throws -> Int64 {
        try session.rowsRead(of: "jobs") + session.rowsRead(of: "receipts")
    }

    private static func outcomes(
        of notification: PushID, isFinal: Bool, as outcome: OutcomeClass? = nil, reason: String? = nil
    ) throws -> OutcomeBatch {
        let names = DeliveryNames(notification)
        let deliveries = (0..<batch).map { place in
            OutcomeEvent.Delivery(
                id: names.id(job: place / PushJob.maximumDeliveries, position: place % PushJob.maximumDeliveries),
                notification: notification, installation: .random(), attempt: isFinal ? 2 : 1, ownerEpoch: 1,
                status: outcome == nil ? isFinal ? 200 : 429 : nil, reason: reason)
        }
        return OutcomeBatch([
            OutcomeEvent(
                id: .random(), source: "/push/dispatcher/test", time: UnixTime.milliseconds(), app: try #require(AppSlug("shop")),
                outcome: outcome ?? (isFinal ? .accepted : .throttled), isFinal: isFinal, deliveries: deliveries)
        ])
    }

    /// - Returns: how many deliveries have their outcome now.
    private static func apply(_ batch: OutcomeBatch, _ session: PostgresSession) throws -> Int {
        try session.transaction { session in
            let store = OutcomeStore(session: session)
            let origins = try store.origins(of: batch)
            try store.lockJobs(of: batch.final + batch.attempts)
            try store.noteAttempts(batch.attempts)
            let finished = try store.finish(batch.final, of: origins)
            _ = try store.countInNotifications(finished)
            return finished.count
        }
    }

    /// A hundred thousand deliveries. The first ones are under way to the tokens that are there; all others have their receipts.
    private static func makeLarge(_ notification: PushID, _ running: RunningService) async throws {
        try await running.execute(
            """
            WITH members AS (
                SELECT place, coalesce(t.id, -1 - place) AS id FROM generate_series(0, 99999) AS place
                LEFT JOIN (SELECT id, row_number() OVER (ORDER BY id) - 1 AS place FROM tokens) AS t USING (place)
            )
            INSERT INTO jobs (notification, number, app_id, lane, locale, due_at, members, ended, free_from, published_at)
            SELECT \(notification), place / 100, 1, 'now', '', now(), string_agg(int8send(id), ''::bytea ORDER BY place),
                CASE WHEN place / 100 < 5 THEN B'0'::bit(100) ELSE ~B'0'::bit(100) END, now(), now()
            FROM members GROUP BY place / 100
            """)
        try await running.execute(
            """
            INSERT INTO receipts (notification, number, position, token_id, installation, owner_epoch, environment, class, updated_at)
            SELECT \(notification), n / 100, n % 100, -1 - n, gen_random_uuid(), 1, 'production', 'accepted', now()
            FROM generate_series(500, 99999) AS n
            """)
        try await running.execute(
            """
            UPDATE notifications SET state = 'sending', total = 100000, pending = 500, jobs = 1000, completed_at = NULL,
                outcomes = ARRAY[ROW('accepted', 200, NULL, 99500)::outcome_count]
            WHERE id = \(notification)
            """)
    }

    /// Statistics of ordinary days: a notification has one job and one receipt. These belong to no notification that is there. They are in
    /// the same partition as those that the test makes.
    private static func analyzeSingles(_ running: RunningService) async throws {
        try await running.execute(
            """
            INSERT INTO jobs (notification, number, app_id, lane, locale, due_at, members, ended, free_from, published_at)
            SELECT overlay(first_id_at(now())::text PLACING lpad(to_hex(n), 12, '0') FROM 25)::uuid,
                0, 1, 'now', '', now(), int8send(-n), ~B'0'::bit(100), now(), now()
            FROM generate_series(1, 100) AS n
            """)
        try await running.execute(
            """
            INSERT INTO receipts (notification, number, position, token_id, installation, owner_epoch, environment, class, updated_at)
            SELECT overlay(first_id_at(now())::text PLACING lpad(to_hex(n), 12, '0') FROM 25)::uuid,
                0, 0, -n, gen_random_uuid(), 1, 'production', 'accepted', now()
            FROM generate_series(1, 100) AS n
            """)
        try await running.execute("ANALYZE jobs")
        try await running.execute("ANALYZE receipts")
    }
}
