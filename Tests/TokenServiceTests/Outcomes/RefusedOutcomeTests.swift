import Broker
import Postgres
import PushModel
import StrictJSON
import TestBroker
import TestSupport
import Testing
import TokenService

@Suite("One bad delivery never takes another one with it", .serialized, .timeLimit(.minutes(5)))
struct RefusedOutcomeTests {
    /// One message about all deliveries of a job: nearly all are rejected, the second token is gone, and one is what `change` makes of it.
    private static func event(_ brake: Brake, _ bad: Int, _ change: (inout OutcomeEvent.Delivery) -> Void) -> OutcomeEvent {
        var event = OutcomeEvent(
            id: .random(), source: "/push/dispatcher/test", time: UnixClock.now(), app: brake.job.app, outcome: .rejected, isFinal: true,
            deliveries: brake.job.deliveries.map {
                OutcomeEvent.Delivery(
                    id: $0.id, notification: brake.job.notification, installation: $0.installation, attempt: 1,
                    ownerEpoch: $0.ownerEpoch, status: 400, reason: "BadTopic", sentAt: UnixClock.now())
            })
        change(&event.deliveries[bad])
        return event
    }

    private static func reasons(_ running: RunningService) async throws -> Set<String> {
        try await running.pool.session { session in
            let rows = try session.execute(
                """
                SELECT coalesce(class, 'none') || ' ' || coalesce(status::text, '-') || ' ' || coalesce(reason,
                    '-') || ' ' || count(*) AS line
                FROM deliveries GROUP BY class, status, reason
                """)
            return Set(try rows.column("line"))
        }
    }

    @Test("A reason with U+0000 and other control characters is stored with U+FFFD in their places") func nul() async throws {
        try await RunningService.run { running in
            let brake = try await Brake(running, count: 22)
            try await running.report(Self.event(brake, 5) { $0.reason = "Bad\u{0}To\u{1b}ken\u{202e}" })
            _ = try await running.completed(brake.job.notification, brake.shop)
            #expect(try await Self.reasons(running) == ["rejected 400 Bad\u{fffd}To\u{fffd}ken\u{fffd} 1", "rejected 400 BadTopic 21"])
            #expect(try await TestBroker.messageCount(running.topology.deadQueue, running.broker) == 0)
        }
    }

    @Test("What PostgreSQL refuses of one delivery leaves the rest of its message alone, and the sender sees what came of it")
    func constraint() async throws {
        let lines = LogLines()
        try await RunningService.run(.init(logger: lines.logger)) { running in
            let brake = try await Brake(running, count: 22)
            try await running.execute("ALTER TABLE receipts ADD CONSTRAINT no_poison CHECK (reason IS DISTINCT FROM 'Poison')")
            // A 410 in another message that shares the transaction is applied, too.
            var gone = brake.job
            gone.deliveries = [brake.job.deliveries[0]]
            var others = Self.event(brake, 5) { $0.reason = "Poison" }
            others.deliveries.removeFirst()
            try await running.report(others)
            try await running.report(.tokenGone, of: gone, status: 410, reason: "Unregistered", sentAt: UnixClock.now() + 1000)
            let id = brake.job.notification
            let status = try await running.completed(id, brake.shop).json
            #expect(
                try await Self.reasons(running) == [
                    "rejected 400 BadTopic 20", "rejected 400 outcome_not_stored 1", "token_gone 410 Unregistered 1",
                ])
            #expect(status["counts"]?.number("rejected") == 21)
            #expect(try await brake.shop.record(installation(1)).tokenStates == ["\(hint(1)) retired gone"])
            let why = try await brake.shop.get("/v1/apps/shop/notifications/\(id)/why?user=ada")
            #expect(String(decoding: why.bytes, as: UTF8.self).contains("APNs refused the notification itself (400 outcome_not_stored)"))
            try await running.counted("outcomes_refused_total", 1)
            let logged = lines.all.filter { $0.contains("PostgreSQL refuses an outcome") }
            #expect(logged.count == 1 && logged[0].contains("SQLSTATE 23514, constraint no_poison"))
            #expect(logged.allSatisfy { $0.contains("\(brake.job.deliveries[5].id)") && !$0.contains("Poison") })
            #expect(try await TestBroker.messageCount(running.topology.deadQueue, running.broker) == 0)
        }
    }

    /// The server's refusal of a value, damaged data, and a statement that does not fit the schema.
    @Test(
        "A delivery of which PostgreSQL takes no outcome at all goes to the dead letters, alone", arguments: ["P0001", "XX001", "42P01"])
    func trigger(state: String) async throws {
        try await RunningService.run { running in
            let brake = try await Brake(running, count: 22)
            let bad = brake.job.deliveries[5].id
            try await running.execute("CREATE TABLE refused (id uuid)")
            try await running.execute("INSERT INTO refused VALUES (\(bad))")
            try await running.pool.session { session in
                try session.simple(
                    """
                    CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                        IF delivery_id(NEW.notification, NEW.number, NEW.position) IN (SELECT id FROM refused) THEN
                            RAISE EXCEPTION 'no' USING ERRCODE = TG_ARGV[0];
                        END IF;
                        RETURN NEW;
                    END $$;
                    CREATE TRIGGER refuse BEFORE INSERT ON receipts FOR EACH ROW EXECUTE FUNCTION refuse('\(state)')
                    """)
            }
            try await running.report(Self.event(brake, 5) { _ in })
            try await running.tap(Subscription(queue: running.topology.deadQueue, prefetch: 10)) { signal in
                let dead = try await signal.next()
                let event = try OutcomeEvent(decoding: dead.body)
                #expect(event.deliveries.map(\.id) == [bad] && event.outcome == .rejected)
                #expect(dead.header("push-reason") == "unapplicable_outcome")
            }
            _ = try await eventually {
                try await Self.reasons(running) == ["none - - 1", "rejected 400 BadTopic 21"] ? true : nil
            }
            try await running.counted("outcomes_refused_total", 1)
            // Done: the broker keeps nothing of it.
            _ = try await eventually {
                try await TestBroker.messageCount(running.topology.tokenServiceOutcomesQueue, running.broker) == 0 ? true : nil
            }
        }
    }

    @Test("A batch that exceeds the statement timeout is written in parts that do not") func statementTimeout() async throws {
        try await RunningService.run(.init(database: { $0.statementTimeout = .seconds(4) })) { running in
            let brake = try await Brake(running, count: 60)
            try await running.pool.session { session in
                try session.simple(
                    """
                    CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(0.1); RETURN NEW; END $$;
                    CREATE TRIGGER slow BEFORE INSERT ON receipts FOR EACH ROW EXECUTE FUNCTION slow()
                    """)
            }
            try await running.report(.accepted, of: brake.job, status: 200)
            _ = try await running.completed(brake.job.notification, brake.shop)
            #expect(try await Self.reasons(running) == ["accepted 200 - \(brake.job.deliveries.count)"])
        }
    }

    /// A receipt that is locked is one of an attempt that was not the end.
    @Test("While a delivery's receipt is locked its outcome waits, and what comes behind it does not") func lockedReceipt() async throws {
        try await RunningService.run(.init(database: { $0.lockTimeout = .milliseconds(500) })) { running in
            let brake = try await Brake(running, count: 22)
            let other = try await running.sendAndTake(#"{"user":"ada"}"#, with: brake.shop)
            var tried = brake.job
            tried.deliveries = [brake.job.deliveries[5]]
            try await running.report(.unknown, of: tried, final: false, reason: "timed_out")
            _ = try await eventually { try await running.count("SELECT count(*) FROM receipts") == 1 ? true : nil }
            try await running.holding("SELECT FROM receipts FOR UPDATE") {
                try await running.report(Self.event(brake, 0) { _ in })
                try await running.report(.accepted, of: other, status: 200)
                _ = try await running.completed(other.notification, brake.shop)
                _ = try await eventually {
                    try await running.count("SELECT count(*) FROM deliveries WHERE class = 'rejected'")
                        == Int64(brake.job.deliveries.count - 1) ? true : nil
                }
            }
            _ = try await running.completed(brake.job.notification, brake.shop)
            #expect(try await TestBroker.messageCount(running.topology.deadQueue, running.broker) == 0)
        }
    }

    @Test("While a job is locked its deliveries' outcomes wait, and those of another job do not") func lockedJob() async throws {
        try await RunningService.run(.init(database: { $0.lockTimeout = .milliseconds(500) })) { running in
            let brake = try await Brake(running, count: 3)
            let other = try await running.sendAndTake(#"{"user":"ada"}"#, with: brake.shop)
            try await running.allPublished()
            try await running.holding("SELECT FROM jobs WHERE notification = \(brake.job.notification) FOR UPDATE") {
                try await running.report(Self.event(brake, 0) { _ in })
                try await running.report(.accepted, of: other, status: 200)
                _ = try await running.completed(other.notification, brake.shop)
                #expect(try await Self.reasons(running) == ["none - - 3", "accepted 200 - 3"])
            }
            _ = try await running.completed(brake.job.notification, brake.shop)
            #expect(try await TestBroker.messageCount(running.topology.deadQueue, running.broker) == 0)
        }
    }

    @Test("A receipt without its text still names the owner that the delivery was for") func notStored() async throws {
        try await RunningService.run { running in
            let brake = try await Brake(running, count: 2)
            try await running.execute("ALTER TABLE receipts ADD CONSTRAINT no_poison CHECK (reason IS DISTINCT FROM 'Poison')")
            var event = Self.event(brake, 1) { $0.reason = "Poison" }
            for index in event.deliveries.indices { event.deliveries[index].ownerEpoch = 7 }
            try await running.report(event)
            _ = try await running.completed(brake.job.notification, brake.shop)
            #expect(try await Self.reasons(running) == ["rejected 400 BadTopic 1", "rejected 400 outcome_not_stored 1"])
            #expect(try await running.count("SELECT count(*) FROM receipts WHERE owner_epoch = 7") == 2)
        }
    }
}
