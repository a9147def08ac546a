import Glibc
import Postgres
import PushAPI
import PushModel
import StrictJSON
import Testing

@Suite("A hold stops fan-out through a large audience, and the rest goes on when it is over", .timeLimit(.minutes(10)))
struct FanOutHoldTests {
    /// A page makes one job.
    private static let settings = ["FAN_OUT_PAGE_INSTALLATIONS": "100", "RELAY_INTERVAL_MS": "50"]
    /// The number of jobs before the hold.
    private static let begun = 10
    /// PostgreSQL refuses every further job until the table says more. Fan-out tries again, and cannot end before the test has set its
    /// hold.
    private static let gate = """
        CREATE TABLE gate AS SELECT \(begun) AS jobs;
        CREATE FUNCTION wait_at_gate() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
            IF EXISTS (SELECT FROM made JOIN gate ON made.number >= gate.jobs) THEN
                RAISE EXCEPTION 'the gate is closed' USING ERRCODE = 'lock_not_available';
            END IF;
            RETURN NULL;
        END $$;
        CREATE TRIGGER wait_at_gate AFTER INSERT ON jobs REFERENCING NEW TABLE AS made FOR EACH STATEMENT EXECUTE FUNCTION wait_at_gate()
        """

    /// The notification and its hold.
    enum Scope: String, CaseIterable {
        case notification, lane

        func write(_ id: String, to write: inout JSONWriter) {
            switch self {
            case .notification: write.field("notification", id)
            case .lane: write.field("lane", "bulk")
            }
        }
    }

    private struct World {
        let platform: Platform
        let journal: String
        let audience: LargeAudience
        let client: Client
        let admin: PushAPI

        /// - Returns: the hold's path.
        func hold(_ scope: Scope, _ id: String, ttlSeconds: Int? = nil) async throws -> String {
            let path = "/v1/apps/\(Client.app)/holds"
            let hold = try await admin.post(path) { body in
                scope.write(id, to: &body)
                body.field("reason", "in the middle of it")
                body.field("ttl_seconds", ttlSeconds)
            }
            return "\(path)/\(try #require(hold["id"]?.stringValue))"
        }

        /// Waits until fan-out is at the gate.
        /// - Returns: false if it ended before: its notification expired.
        @discardableResult
        func begun(_ id: String) async throws -> Bool {
            try await eventually("fan-out is under way") {
                let progress = try await audience.progress(of: id)
                if progress.isFannedOut { return false }
                return progress.jobs == FanOutHoldTests.begun ? true : nil
            }
        }

        /// Waits until a hold stops the fan-out, and opens the gate then.
        /// - Returns: false if no hold did before all of them, or the fan-out, had ended.
        @discardableResult
        func stopped(_ id: String) async throws -> Bool {
            let isStopped = try await eventually("fan-out is put aside") {
                try await platform.database.session { session -> Bool? in
                    let row = try session.execute(
                        """
                        SELECT held_by IS NOT NULL AS is_held,
                            ended_at IS NULL AND EXISTS (SELECT FROM holds WHERE ends_at > now()) AS may_be_held
                        FROM fan_outs WHERE notification = \(id)::text::uuid
                        """
                    ).only()
                    if try row["is_held"] { return true }
                    return try row["may_be_held"] ? nil : false
                }
            }
            if isStopped { try await platform.database.session { session in try session.simple("UPDATE gate SET jobs = 1000000") } }
            return isStopped
        }

        func completed(_ id: String, _ client: Client) async throws {
            _ = try await eventually("everything has its outcome", within: .seconds(300)) {
                try await ["completed", "expired"].contains(client.status(id)["state"]?.stringValue) ? true : nil
            }
        }

        /// The number of pushes for each device that got any.
        func arrivals() throws -> [Client.Arrival: Int] { try LargeAudience.arrivals(journal: journal) }
    }

    private static func with(_ body: (World, RunningService, RunningService) async throws -> Void) async throws {
        try await withPlatform { platform in
            let journal = "\(platform.folder)/journal"
            try await platform.startSimulator(["JOURNAL_FILE": journal])
            let tokenService = try await platform.startTokenService(settings)
            let dispatcher = try await platform.startDispatcher()
            try await Client.with(platform, tokenService) { client in
                let audience = try await LargeAudience.register(TestParameters.audience, on: platform)
                try await platform.database.session { session in try session.simple(gate) }
                let world = World(
                    platform: platform, journal: journal, audience: audience, client: client,
                    admin: client.service.other(key: platform.adminKey))
                try await body(world, tokenService, dispatcher)
            }
        }
    }

    @Test(
        "After a hold midway and a restart of both services every device gets one push and the counters are exact",
        arguments: Scope.allCases)
    func heldMidway(scope: Scope) async throws {
        try await Self.with { world, tokenService, dispatcher in
            let id = try await world.client.sendToAll("to everybody")
            try await world.begun(id)
            let hold = try await world.hold(scope, id)
            #expect(try await world.stopped(id))
            // The hold survives the restart of both services. The dispatcher may finish deliveries in flight; the token service has none.
            dispatcher.process.send(SIGTERM)
            #expect(await dispatcher.process.waitForEnd() == .exited(0))
            await tokenService.process.killAndWait()
            let another = try await world.platform.startTokenService(Self.settings)
            try await world.platform.startDispatcher("dispatcher-2")
            let client = world.client.talking(to: another)
            let admin = client.service.other(key: world.platform.adminKey)
            // Another notification passes meanwhile, so all of them have had the time to take held jobs.
            let ada = try await client.registerDevices(1, user: "ada")
            let free = try await client.send("free", to: "ada")
            #expect(try await client.completed(free).count("accepted") == 1)
            #expect(try await world.audience.progress(of: id).jobs == Self.begun)
            let before = try world.arrivals().filter { $0.key.token != ada[0].token }
            #expect(before.count < world.audience.count)

            try await admin.delete(hold)
            try await world.completed(id, client)
            let arrivals = try world.arrivals().filter { $0.key.token != ada[0].token }
            let tokens = try await world.audience.tokens().subtracting([ada[0].token])
            let met = Set(arrivals.keys.map(\.token))
            // Fan-out also meets a user that registers ahead of it: Ada may be one.
            #expect(met == tokens, "skipped: \(tokens.subtracting(met).count)")
            #expect(arrivals.values.allSatisfy { $0 == 1 }, "sent twice: \(arrivals.values.count { $0 > 1 })")
            let counts = try await world.audience.counts(of: id)
            let isAdaMet = try world.arrivals().keys.count { $0.token == ada[0].token } == 2
            #expect(counts.total == world.audience.count + (isAdaMet ? 1 : 0) && counts.pending == 0, "\(counts)")
            #expect(counts.byClass == ["accepted": counts.total], "\(counts)")
        }
    }

    @Test("Fan-out goes on after a hold that ends by itself midway") func endsByItself() async throws {
        try await Self.with { world, _, _ in
            let id = try await world.client.sendToAll("to everybody")
            try await world.begun(id)
            // On a slow machine a short hold may end before fan-out has met it.
            var seconds = 5
            repeat {
                _ = try await world.hold(.lane, id, ttlSeconds: seconds)
                seconds *= 2
            } while try await !world.stopped(id)
            try await world.completed(id, world.client)
            let arrivals = try world.arrivals()
            #expect(Set(arrivals.keys.map(\.token)) == (try await world.audience.tokens()))
            #expect(arrivals.values.allSatisfy { $0 == 1 })
            #expect(try await world.audience.counts(of: id).byClass == ["accepted": world.audience.count])
        }
    }

    @Test("Held deliveries that expire end as expired, unsent, with exact counters")
    func expiresMeanwhile() async throws {
        try await Self.with { world, _, _ in
            var (id, seconds, before) = ("", 15, 0)
            while true {
                before = try world.arrivals().count
                id = try await world.client.sendToAll("to everybody", ttlSeconds: seconds)
                if try await world.begun(id) {
                    _ = try await world.hold(.notification, id)
                    if try await world.stopped(id) { break }
                }
                // The machine was too slow for that lifetime.
                try await world.completed(id, world.client)
                seconds *= 2
            }
            try await world.completed(id, world.client)
            let counts = try await world.audience.counts(of: id)
            #expect(counts.pending == 0 && counts.total == counts.byClass.values.reduce(0, +), "\(counts)")
            #expect(Set(counts.byClass.keys).isSubset(of: ["accepted", "expired"]), "\(counts)")
            #expect(counts.total < world.audience.count)
            let arrivals = try world.arrivals()
            #expect(arrivals.count - before == counts.byClass["accepted"] ?? 0 && arrivals.values.allSatisfy { $0 == 1 })
        }
    }
}
