import Broker
import Logging
import Postgres
import PushModel
import ServiceLifecycle
import StrictJSON
import TestDatabase
import TestSupport
import Testing

@testable import TokenService

/// How far a clock is set, in milliseconds: an hour, four days and a year, both ways.
private enum ClockStep {
    static let hour: Int64 = 3_600_000
    static let all: [Int64] = [-8760, -96, -1, 1, 96, 8760].map { $0 * hour }
    static let moment: Int64 = 1_800_000_000_000
}

@Suite("A token service whose clock is set", .timeLimit(.minutes(2)))
struct ProcessClockTests {
    @Test("Ids that are made at the same moment differ, and an id says when it was made", arguments: ClockStep.all)
    func ids(step: Int64) {
        let moments = [ClockStep.moment, ClockStep.moment + step]
        let ids = moments.flatMap { moment in (0..<2_000).map { _ in PushID.timeOrdered(milliseconds: moment) } }
        #expect(Set(ids).count == 4_000)
        #expect(Set(ids.map(\.milliseconds)) == Set(moments))
        for moment in [.min, -1, 0, .max] as [Int64] { #expect(PushID.timeOrdered(milliseconds: moment).milliseconds != nil) }
    }

    @Test("A webhook is tried again within a day, whatever date its receiver names", arguments: ClockStep.all)
    func retryAfter(step: Int64) {
        // A minute after `moment`: RFC 9110 section 5.6.7.
        let text = "Fri, 15 Jan 2027 08:01:00 GMT"
        let wait = RetryAfter.duration(text, now: ClockStep.moment + step)
        #expect(wait == (step > 0 ? nil : step < -24 * ClockStep.hour ? .seconds(86_400) : .seconds(60 - step / 1000)))
    }

    @Test("The jobs that a process remembers are few, and the latest is among them", arguments: ClockStep.all)
    func waitingJobs(step: Int64) {
        var jobs = WaitingJobs()
        for number in 0..<6_000 as Range<Int64> {
            let moment = ClockStep.moment + number * 1000 + (2_000..<4_000 ~= number ? step : 0)
            let id = JobID(notification: PushID(high: 7, low: UInt64(number)), number: 0)
            jobs.append(.init(id: id, publishedAt: moment, expiresAt: moment + ClockStep.hour))
        }
        #expect(jobs.jobs.count <= WaitingJobs.maximumCount)
        #expect(jobs.jobs.last?.id.notification == PushID(high: 7, low: 5_999))
        jobs.forget([JobID(notification: PushID(high: 7, low: 5_999), number: 0)])
        #expect(jobs.oldest == nil)
    }

    @Test("A live hold is published again when a day has passed, and a lifted one until it is published", arguments: ClockStep.all)
    func holds(step: Int64) throws {
        let scope = try #require(HoldScope(app: nil, lane: nil, notification: nil))
        var hold = Hold(
            id: .random(), scope: scope, reason: "", setAt: ClockStep.moment, setBy: "", state: .live, publishedAt: ClockStep.moment)
        #expect(hold.isDue(now: ClockStep.moment + step) == (step > 24 * ClockStep.hour))
        hold.state = .expired
        #expect(!hold.isDue(now: ClockStep.moment + step))
    }

    @Test("A hold ends by the clock of the process that publishes, until the database is read again", arguments: ClockStep.all)
    func holdCache(step: Int64) throws {
        let cache = HoldCache()
        let scope = try #require(HoldScope(app: nil, lane: .now, notification: nil))
        let hold = Hold(
            id: .random(), scope: scope, reason: "", setAt: ClockStep.moment, setBy: "", endsAt: ClockStep.moment + 1_800_000,
            state: .live)
        cache.add(hold)
        #expect(cache.holds(app: 1, lane: .now, notification: nil, now: ClockStep.moment + step) == (step < 0))
        var over = hold
        over.state = .expired
        cache.replace(with: [over], readAfter: cache.added)
        #expect(!cache.holds(app: 1, lane: .now, notification: nil, now: ClockStep.moment + step))
    }

    @Test("A device credential is good by the clock of the process that checks it") func credentials() async throws {
        let keys = try #require(DeviceCredentialKeys(RunningService.deviceKey))
        try await RunningService.withDevices { running, shop in
            for (step, status) in [(-96, 401), (-1, 401), (1, 201)] as [(Int64, Int)] {
                // Good for half an hour by the clock of the process that made it.
                let credential = DeviceCredential(
                    app: try #require(AppSlug("shop")), installation: installation(1), user: "ada", ownerEpoch: 0,
                    expiresAt: UnixTime.milliseconds() + step * ClockStep.hour + 1_800_000)
                let device = shop.with(key: keys.text(credential))
                let answer = try await device.register(installation(1), user: "ada", token: token(1))
                #expect(answer.status == status, "\(step) hours: \(answer.json)")
            }
        }
    }
}

/// A database whose statements see another time than its server's.
private struct SteppedDatabase {
    let pool: PostgresPool
    let uri: String

    /// Statements find `now()` and `clock_timestamp()` in the first schema of their path. Those that the schema's functions and views
    /// contain are the server's.
    static func with(_ body: (SteppedDatabase) async throws -> Void) async throws {
        try await withTestDatabase(migrations: RunningService.migrationsDirectory()) { pool, uri in
            try await pool.session { session in
                try session.simple(
                    """
                    CREATE SCHEMA clock;
                    CREATE TABLE clock.step (ahead bigint NOT NULL);
                    INSERT INTO clock.step VALUES (0);
                    CREATE FUNCTION clock.now() RETURNS timestamptz LANGUAGE sql STABLE
                        RETURN pg_catalog.now() + (SELECT ahead FROM clock.step) * interval '1 millisecond';
                    CREATE FUNCTION clock.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE
                        RETURN pg_catalog.clock_timestamp() + (SELECT ahead FROM clock.step) * interval '1 millisecond';
                    DO $$ BEGIN
                        EXECUTE format('ALTER DATABASE %I SET search_path = clock, pg_catalog, public', current_database());
                    END $$
                    """)
            }
            try await body(SteppedDatabase(pool: pool, uri: uri))
        }
    }

    func set(_ milliseconds: Int64) async throws {
        try await pool.session { session in _ = try session.execute("UPDATE clock.step SET ahead = \(milliseconds)") }
    }
}

@Suite("When PostgreSQL's clock is set", .serialized, .timeLimit(.minutes(5)))
struct DatabaseClockTests {
    private static let still = RunningService.Options(without: { $0 is Housekeeper })

    @Test("Notifications are published and users signed out at once after a step, and after the step back", arguments: ClockStep.all)
    func goesOn(step: Int64) async throws {
        try await SteppedDatabase.with { database in
            try await RunningService.run(on: database.pool, uri: database.uri, Self.still) { running in
                let shop = try await running.client.makeApp()
                for (number, ahead) in [(1, 0), (2, step), (3, 0)] as [(Int, Int64)] {
                    try await database.set(ahead)
                    try await shop.register(installation(number), user: "ada", token: token(number))
                    for target in [#"{"user":"ada"}"#, #"{"users":["ada"]}"#] {
                        let sent = try await shop.send(target, more: #","ttl_seconds":259200"#)
                        let id = try #require(sent.json.text("id").flatMap { PushID($0) }, "\(sent.json)")
                        _ = try await eventually {
                            let published: PostgresQuery =
                                "SELECT count(*) FROM jobs WHERE notification = \(id) AND published_at IS NOT NULL"
                            return try await running.count(published) == 1 ? true : nil
                        }
                    }
                    let out = try await shop.post("/v1/apps/shop/installations/\(installation(number))/logout")
                    #expect(out.status == 200 && out.json.text("fence") == "effective", "\(out.json)")
                }
            }
        }
    }
}
