import Broker
import Dispatch
import Observability
import OpenSSL
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

@Suite("Old rows go with their partition", .serialized, .timeLimit(.minutes(5)))
struct PartitionTests {
    private static let still = RunningService.Options(without: { $0 is Housekeeper })
    private static let ofNotifications = [
        "cancellations", "device_receipts", "fan_outs", "jobs", "notification_variants", "notifications", "receipts", "targets",
    ]
    private static let rowsOfNotifications: [PostgresQuery] = [
        "SELECT notification AS id FROM jobs ORDER BY id", "SELECT notification AS id FROM notification_variants ORDER BY id",
        "SELECT id FROM notifications ORDER BY id",
        "SELECT notification AS id FROM receipts ORDER BY id", "SELECT notification AS id FROM cancellations ORDER BY id",
        "SELECT notification AS id FROM device_receipts ORDER BY id",
        "SELECT notification AS id FROM fan_outs ORDER BY id", "SELECT notification AS id FROM targets ORDER BY id",
    ]

    // MARK: Making

    @Test("A retention has about eight periods", arguments: [(1, 1), (8, 1), (9, 2), (30, 4), (90, 12), (3650, 457)])
    func periods(_ retention: Int, _ period: Int) {
        let settings = Housekeeper.Settings(
            interval: .seconds(1), historyDays: retention, retiredTokenDays: 1, receiptDays: retention, webhookDays: 1)
        #expect(settings.periodDays(of: .notifications) == period && settings.periodDays(of: .history) == period)
        #expect(settings.periodDays(of: .idempotencyRecords) == 1)
    }

    @Test("The schema's first periods begin before today, and one lies ahead") func first() async throws {
        try await RunningService.run(Self.still) { running in
            let now = UnixClock.now()
            for (family, days) in [(PartitionFamily.notifications, 4), (.history, 12), (.idempotencyRecords, 1)] {
                #expect(try await Self.make(family, days: days, running).isEmpty)
                let state = try #require(try await Self.states(running)[family])
                #expect(state.ahead(now: now) >= Double(days * 86_400), "\(family)")
                #expect(state.restRows == 0 && state.overdue(now: now) == 0)
            }
            #expect(
                try await running.count("SELECT count(*) FROM partitions WHERE begins_at < date_trunc('day', now(), 'UTC')") == 11)
        }
    }

    @Test("Rows that come without a period are found, and become a period of their own") func missing() async throws {
        try await RunningService.run(Self.still) { running in
            let shop = try await running.client.makeApp()
            try await shop.register(installation(1), user: "ada", token: token(1))
            try await running.dropPeriods()
            let sent = try await shop.send(#"{"user":"ada"}"#, headers: ["idempotency-key": "k"])
            let id = try #require(sent.json.text("id").flatMap { PushID($0) })
            try await shop.register(installation(2), user: "ada", token: token(2))
            // A clock that is ahead by an hour.
            let ahead = PushID.timeOrdered(milliseconds: UnixClock.now() + 3_600_000)
            try await running.pool.session { session in
                try session.execute("INSERT INTO notification_variants (notification, locale, payload) VALUES (\(ahead), 'de', '{}')")
            }
            #expect(try await running.ids("SELECT id FROM notifications_rest") == [id])
            #expect(try await running.ids("SELECT notification AS id FROM jobs_rest") == [id])
            for (family, state) in try await Self.states(running) {
                #expect(state.restRows > 0 && state.ahead(now: UnixClock.now()) == 0, "\(family)")
            }
            // Four tasks make them at the same time. Each period is made once.
            let made = try await withThrowingTaskGroup(of: [String].self) { group in
                for _ in 1...4 { group.addTask { try await Self.make(.notifications, days: 4, running) } }
                return try await group.reduce(into: [String]()) { $0 += $1 }
            }
            #expect(made.count == 2 * Self.ofNotifications.count && Set(made).count == made.count)
            for table in Self.ofNotifications { #expect(made.count { $0.hasPrefix(table + "_2") } == 2, "\(table)") }
            #expect(try await Self.make(.history, days: 12, running).count == 2 * 2)
            #expect(try await Self.make(.idempotencyRecords, days: 1, running).count == 2)
            for (family, state) in try await Self.states(running) {
                #expect(state.restRows == 0 && state.ahead(now: UnixClock.now()) > 86_400, "\(family)")
            }
            #expect(try await running.count("SELECT count(*) FROM notifications_rest") == 0)
            #expect(try await running.ids("SELECT notification AS id FROM notification_variants") == [ahead])
            #expect(try await shop.status(id.description).text("id") == id.description)
            #expect(try await shop.send(#"{"user":"ada"}"#, headers: ["idempotency-key": "k"]).header("idempotency-replay") == "true")
            #expect(try await shop.send(#"{"user":"ada"}"#).status == 202)
            #expect(try await running.count("SELECT count(*) FROM notifications_rest") == 0)
        }
    }

    @Test("A partition that was analyzed while it was empty counts as never analyzed after the next round; rows that it has got since stay")
    func analyzedWhileEmpty() async throws {
        try await RunningService.run(Self.still) { running in
            let shop = try await running.client.makeApp()
            try await shop.register(installation(1), user: "ada", token: token(1))
            try await running.execute("ANALYZE")
            let id = try #require(try await shop.send(#"{"user":"ada"}"#).json.text("id"))
            @Sendable func takenForEmpty() async throws -> Int64 {
                try await running.count(
                    """
                    SELECT count(*) FROM partitions p JOIN pg_class c ON c.oid = p.name::regclass
                    WHERE p.family = 'notifications' AND c.reltuples = 0 AND pg_relation_size(c.oid) = 0
                    """)
            }
            #expect(try await takenForEmpty() > Int64(Self.ofNotifications.count))
            #expect(try await Self.make(.notifications, days: 4, running).isEmpty)
            #expect(try await takenForEmpty() == 0)
            #expect(try await shop.status(id).text("id") == id)
        }
    }

    @Test("A process that starts makes what is missing, and its metrics say how far it reaches") func start() async throws {
        try await RunningService.run(Self.still) { running in
            try await running.dropPeriods()
            try await running.another(.init(settings: ["HOUSEKEEPING_INTERVAL_SECONDS": "3600"])) { other in
                _ = try await eventually { try await running.count("SELECT count(*) FROM partitions") == 11 * 2 ? true : nil }
                func gauge(_ name: String) -> Double? {
                    let series = "push_token_service_\(name){table=\"notifications\"} "
                    let line = other.metrics.render().split(separator: "\n").first { $0.hasPrefix(series) }
                    return line.flatMap { Double($0.dropFirst(series.count)) }
                }
                _ = try await eventually { (gauge("partitions_ahead_seconds") ?? 0) >= 4 * 86_400 ? true : nil }
                #expect(gauge("partitions_rest_rows") == 0 && gauge("retention_overdue_seconds") == 0)
            }
        }
    }

    // MARK: Dropping

    @Test("A period is dropped from all tables when its retention is over, and not while one of its notifications is in use")
    func dropping() async throws {
        try await RunningService.run(Self.still) { running in
            let shop = try await running.client.makeApp()
            try await shop.register(installation(1), user: "ada", token: token(1))
            try await running.makePassedPeriod()
            let old = [
                try await running.insert("completed", acceptedDaysAgo: 15, expiresInDays: -14),
                try await running.insert("sending", acceptedDaysAgo: 12, expiresInDays: -11),
                try await running.insert("scheduled", acceptedDaysAgo: 12, expiresInDays: 9),
            ]
            let new = try await running.insert("sending", acceptedDaysAgo: 0, expiresInDays: 1)
            #expect(try await running.dropPassed(retentionDays: 1).isEmpty)
            let kept = try #require(try await Self.states(running, retentionDays: 1)[.notifications])
            #expect(kept.overdue(now: UnixClock.now()) == 0)
            #expect(try await shop.delete("/v1/apps/shop/notifications/\(old[2])").status == 200)
            try await running.execute("UPDATE notifications SET expires_at = now() - interval '3 days' WHERE state = 'cancelled'")
            // Its end is ten days ago; its rows were in use for four days more; and one of them until three days ago.
            #expect(try await running.dropPassed(retentionDays: 4).isEmpty)
            let passed = try #require(try await Self.states(running, retentionDays: 2)[.notifications])
            #expect((86_000..<87_000).contains(passed.overdue(now: UnixClock.now())))
            let dropped = try await running.dropPassed(retentionDays: 2)
            #expect(dropped.last == "notifications_passed" && dropped.sorted() == Self.ofNotifications.map { $0 + "_passed" })
            #expect(try await running.dropPassed(retentionDays: 2).isEmpty)
            for rows in Self.rowsOfNotifications { #expect(try await running.ids(rows) == [new]) }
            for id in old { #expect(try await shop.get("/v1/apps/shop/notifications/\(id)").status == 404) }
            #expect(try await shop.get("/v1/apps/shop/notifications/\(new)").status == 200)
        }
    }

    @Test("Acceptance and outcomes go on while a period is dropped") func race() async throws {
        try await RunningService.run(Self.still) { running in
            let shop = try await running.client.makeApp()
            try await running.fill(100, app: try await running.app(), owner: "ada")
            try await running.makePassedPeriod()
            _ = try await running.insert("completed", acceptedDaysAgo: 15, expiresInDays: -14)
            let active = try await running.insert("sending", acceptedDaysAgo: 0, expiresInDays: 1)
            try await withThrowingTaskGroup(of: Void.self) { group in
                group.addTask {
                    for start in stride(from: 0, to: 100, by: 5) { try await Self.accept(start..<start + 5, of: active, running) }
                }
                group.addTask {
                    for _ in 1...20 {
                        let sent = try await shop.send(#"{"user":"ada"}"#)
                        #expect(sent.status == 202)
                    }
                }
                group.addTask {
                    let dropped = try await running.dropPassed(retentionDays: 5)
                    #expect(dropped.count == Self.ofNotifications.count)
                }
                try await group.waitForAll()
            }
            #expect(try await running.count("SELECT count(*) FROM receipts WHERE class = 'accepted'") == 100)
            #expect(try await running.count("SELECT count(*) FROM notifications WHERE state = 'completed'") == 1)
            #expect(try await running.count("SELECT count(*) FROM notifications") == 21)
        }
    }

    @Test("While a VACUUM holds a partition, its removal waits and stops no caller") func vacuum() async throws {
        try await RunningService.run(Self.still) { running in
            let shop = try await running.client.makeApp()
            try await running.fill(1, app: try await running.app(), owner: "ada")
            try await running.makePassedPeriod()
            let (isLocked, isAwaited) = (Signal<Void>(), Signal<Void>())
            async let vacuum: Void = running.pool.transaction { session in
                try session.execute("LOCK TABLE notifications_passed IN SHARE UPDATE EXCLUSIVE MODE")
                isLocked.send(())
                let waiting: PostgresQuery = "SELECT FROM pg_locks WHERE NOT granted AND relation = 'notifications_passed'::regclass"
                while try session.execute(waiting).count == 0 { try session.execute("SELECT pg_sleep(0.02)") }
                isAwaited.send(())
                let end: PostgresQuery = "SELECT FROM pg_class WHERE relname = 'vacuum_may_end'"
                while try session.execute(end).count == 0 { try session.execute("SELECT pg_sleep(0.02)") }
            }
            try await isLocked.next()
            async let dropped = running.dropPassed(retentionDays: 5, lockTimeout: .seconds(50))
            try await isAwaited.next()
            let sent = try await shop.send(#"{"user":"ada"}"#)
            #expect(sent.status == 202)
            try await running.execute("CREATE TABLE vacuum_may_end ()")
            try await vacuum
            #expect(try await dropped.count == Self.ofNotifications.count)
        }
    }

    @Test("The housekeeping drops periods; rows of a wrong clock go one by one") func housekeeping() async throws {
        try await RunningService.run(
            .init(settings: ["HOUSEKEEPING_INTERVAL_SECONDS": "1", "RECEIPT_RETENTION_DAYS": "5"], without: { $0 is Relay })
        ) { running in
            let shop = try await running.client.makeApp()
            try await shop.register(installation(1), user: "ada", token: token(1))
            try await running.makePassedPeriod()
            _ = try await running.insert("completed", acceptedDaysAgo: 15, expiresInDays: -14)
            _ = try await running.insert("completed", acceptedDaysAgo: 50, expiresInDays: -49)
            let late = try await running.insert("completed", acceptedDaysAgo: 30, expiresInDays: -29)
            for rows in Self.rowsOfNotifications {
                _ = try await eventually { try await running.ids(rows) == [late] ? true : nil }
            }
            #expect(try await running.count("SELECT count(*) FROM partitions WHERE name LIKE '%_passed'") == 0)
        }
    }

    @Test("History, the audit trail and idempotency records go with their period") func others() async throws {
        try await RunningService.run(Self.still) { running in
            let shop = try await running.client.makeApp()
            try await shop.register(installation(1), user: "ada", token: token(1))
            #expect(try await shop.send(#"{"user":"ada"}"#, headers: ["idempotency-key": "k"]).status == 202)
            func drop(_ family: PartitionFamily, retentionDays: Int, inDays days: Int) async throws -> Int {
                try await running.pool.transaction { session in
                    try session.execute(
                        """
                        SELECT drop_partition(\(family), \(retentionDays) * interval '1 day', now() + \(days) * interval '1 day')
                        """
                    ).count
                }
            }
            #expect(try await drop(.history, retentionDays: 90, inDays: 101) == 0)
            #expect(try await running.count("SELECT count(*) FROM audit") > 0)
            // A table in each transaction, that of the family's name last.
            #expect(try await drop(.history, retentionDays: 90, inDays: 102) == 1)
            #expect(try await running.count("SELECT count(*) FROM audit") == 0)
            #expect(try await drop(.history, retentionDays: 90, inDays: 102) == 1)
            #expect(try await running.count("SELECT count(*) FROM installation_history") == 0)
            #expect(try await drop(.idempotencyRecords, retentionDays: 0, inDays: 1) == 0)
            #expect(try await drop(.idempotencyRecords, retentionDays: 0, inDays: 2) == 1)
            #expect(try await running.count("SELECT count(*) FROM idempotency_records") == 0)
        }
    }

    // MARK: Idempotency

    @Test("One key, one notification, on the two sides of midnight") func midnight() async throws {
        try await RunningService.run(Self.still) { running in
            let shop = try await running.client.makeApp()
            #expect(try await shop.send(#"{"user":"ada"}"#, headers: ["idempotency-key": "any"]).status == 202)
            // PostgreSQL's clock, as the transactions of this test see it.
            try await running.execute("CREATE SCHEMA clock")
            try await running.execute(
                "CREATE FUNCTION clock.now() RETURNS timestamptz LANGUAGE sql RETURN current_setting('clock.now')::timestamptz")
            let midnight = (UnixClock.now() / 86_400_000 + 1) * 86_400_000
            let caller: String = try await running.pool.session { session in
                try session.execute("SELECT api_key_id FROM idempotency_records").only()["api_key_id"]
            }
            let app = try await running.app()
            @Sendable func setClock(_ moment: Int64, _ session: PostgresSession) throws {
                try session.execute(
                    """
                    SELECT set_config('clock.now', (\(milliseconds: moment)::timestamptz)::text, true),
                        set_config('search_path', 'clock, pg_catalog, public', true)
                    """
                )
            }
            /// True if the key is the notification's now, false if another transaction is using it, nil if it was used before.
            @Sendable func claim(
                _ key: String, for notification: PushID = .random(), at moment: Int64, _ session: PostgresSession
            ) throws -> Bool? {
                try setClock(moment, session)
                return try session.execute(
                    NotificationStore.claimKeys(
                        apps: [app.id], callers: [caller], keys: [key], fingerprints: [Digest.sha256([1])], notifications: [notification],
                        warnings: ["[]"])
                ).first?["is_claimed"]
            }
            for (key, isCommitted) in [("committed", true), ("abandoned", false)] {
                let (claimed, letGo) = (Signal<Void>(), DispatchSemaphore(value: 0))
                async let before: Void = running.pool.transaction { session in
                    let isClaimed = try claim(key, at: midnight - 1, session)
                    #expect(isClaimed == true)
                    claimed.send(())
                    letGo.wait()
                    if !isCommitted { throw Abandoned() }
                }
                try await claimed.next()
                let during = try await running.pool.transaction { session in try claim(key, at: midnight + 1, session) }
                letGo.signal()
                #expect(during == false, "\(key)")
                do { try await before } catch is Abandoned {}
                let after = try await running.pool.transaction { session in try claim(key, at: midnight + 1, session) }
                #expect(after == (isCommitted ? nil : true), "\(key)")
                // Later in that day, and on the next.
                for hours in [1, 24] as [Int64] where hours == 1 || !isCommitted {
                    let again = try await running.pool.transaction { session in try claim(key, at: midnight + hours * 3_600_000, session) }
                    #expect(again == nil, "\(key) after \(hours) hours")
                }
            }
            // A repeat of a request of the day's first minutes finds one notification.
            let known: PushID = try await running.pool.session { session in
                try session.execute("SELECT notification FROM idempotency_records WHERE key = 'any'").only()["notification"]
            }
            #expect(try await running.pool.transaction { session in try claim("early", for: known, at: midnight + 1, session) } == true)
            for hours in [1, 25] as [Int64] {
                let found: [PushID] = try await running.pool.transaction { session in
                    try setClock(midnight + hours * 3_600_000, session)
                    let key = IdempotencyKey(caller: caller, key: "early", fingerprint: Digest.sha256([1]))
                    return try session.execute(IdempotencyRecords(session: session, app: app).select(key)).column("id")
                }
                #expect(found == [known], "after \(hours) hours")
            }
            // Both are forgotten on the second day after their first use.
            for (key, days) in [("committed", 1), ("abandoned", 2)] as [(String, Int64)] {
                #expect(
                    try await running.pool.transaction { session in try claim(key, at: midnight + days * 86_400_000 + 1, session) } == true)
            }
        }
    }

    private struct Abandoned: Error {}

    // MARK: Plans

    /// Before anything is analyzed. Of analyzed tables of one page, any plan is as cheap.
    @Test("Kept plans of statements that know their notifications read no other period") func plans() async throws {
        let options = RunningService.Options(without: {
            $0 is Housekeeper || $0 is Relay || $0 is Publisher || $0 is LaneWaits || $0 is EventFeed
        })
        try await RunningService.run(options) { running in
            let shop = try await running.client.makeApp()
            try await running.fill(3, app: try await running.app(), owner: "ada")
            try await running.makePassedPeriod()
            for _ in 1...20 { _ = try await running.insert("completed", acceptedDaysAgo: 12, expiresInDays: -11) }
            for _ in 1...20 { #expect(try await shop.send(#"{"user":"ada"}"#).status == 202) }
            try await running.execute("UPDATE jobs SET free_from = now() WHERE published_at IS NULL")
            let (read, finished) = try await running.service.pool.session { session in
                try session.endOthers()
                let store = JobStore(session: session)
                let claimed = try session.transaction { _ in try store.claimFree(20, of: .now, leaseSeconds: 60) }
                try #require(claimed.count == 20)
                let before = try Self.otherScans(session)
                #expect(try store.resolve(claimed, now: UnixTime.milliseconds()).allSatisfy { $0.deliveries.count == 3 })
                try store.renew(claimed, seconds: 60)
                try session.transaction { _ in
                    try store.record(claimed.map { PublishedJob(id: $0, isPublished: true, isFirst: true) })
                }
                let finished = try claimed.map { job in try Self.settle(0..<3, of: job.notification, session) }
                return (try Self.otherScans(session) - before, finished)
            }
            #expect(read == 0)
            #expect(finished.allSatisfy { $0 == 1 })
            #expect(try await running.count("SELECT count(*) FROM notifications WHERE state = 'completed'") == 40)
        }
    }

    /// Scans of indexes in the periods in which nothing of now is.
    private static func otherScans(_ session: PostgresSession) throws -> Int64 {
        try session.execute("SELECT pg_stat_force_next_flush()")
        return try session.execute(
            """
            SELECT coalesce(sum(i.idx_scan), 0)::bigint AS scans FROM pg_stat_user_indexes i
            WHERE i.relname IN (
                SELECT p.name FROM partitions p WHERE p.family = 'notifications' AND NOT (p.begins_at <= now() AND p.ends_at > now())
                UNION ALL SELECT table_name || '_rest' FROM partitioned_tables WHERE family = 'notifications')
            """
        ).only()["scans"]
    }

    // MARK: Helpers

    private static func make(_ family: PartitionFamily, days: Int, _ running: RunningService) async throws -> [String] {
        var all: [String] = []
        while true {
            let made = try await running.pool.transaction { session in
                try PartitionStore(session: session).makeNext(family, days: days)
            }
            guard !made.isEmpty else { return all }
            all += made
        }
    }

    private static func states(_ running: RunningService, retentionDays: Int = 30) async throws -> [PartitionFamily: PartitionState] {
        try await running.pool.session { session in try PartitionStore(session: session).states { _ in retentionDays } }
    }

    private static func events(_ positions: Range<Int>, of notification: PushID) throws -> OutcomeBatch {
        let names = DeliveryNames(notification)
        return OutcomeBatch([
            OutcomeEvent(
                id: .random(), source: "/push/dispatcher/test", time: UnixTime.milliseconds(), app: try #require(AppSlug("shop")),
                outcome: .accepted, isFinal: true,
                deliveries: positions.map { position in
                    OutcomeEvent.Delivery(
                        id: names.id(job: 0, position: position), notification: notification, installation: installation(1), attempt: 1,
                        ownerEpoch: 1, status: 200)
                })
        ])
    }

    private static func accept(_ positions: Range<Int>, of notification: PushID, _ running: RunningService) async throws {
        let effect = try await OutcomeApplication(pool: running.pool).apply(try events(positions, of: notification))
        #expect(effect.finished[.accepted] == positions.count)
    }

    /// - Returns: how many notifications have all of their outcomes.
    private static func settle(_ positions: Range<Int>, of notification: PushID, _ session: PostgresSession) throws -> Int {
        let batch = try events(positions, of: notification)
        return try session.transaction { session in
            let store = OutcomeStore(session: session)
            let origins = try store.origins(of: batch)
            let finished = try store.finish(batch.final, of: origins)
            return try store.countInNotifications(finished).count
        }
    }
}
