import Broker
import Postgres
import PushModel
import RabbitMQ
import StrictJSON
import TestBroker
import TestSupport
import Testing

@testable import TokenServiceOutcomes
@testable import TokenServiceSending

/// Promise 2: a letter whose jobs the broker has stays for no other letter's sake, because the next replay would send them again.
@Suite("What a replay sends goes out once, whatever becomes of the rest", .serialized, .timeLimit(.minutes(5)))
struct ReplayConfirmationTests {
    /// One device of each user, and a dead letter of each, in two lanes.
    private static func letters(_ running: RunningService) async throws -> (shop: APITestClient, now: PushJob, bulk: PushJob) {
        let shop = try await running.client.makeApp()
        for (number, user) in [(1, "ada"), (2, "grace")] { try await shop.register(installation(number), user: user, token: token(number)) }
        let now = try await running.sendAndTake(#"{"user":"ada"}"#, with: shop)
        let bulk = try await running.jobs(.bulk) { signal in
            #expect(try await shop.send(#"{"user":"grace"}"#, more: #","lane":"bulk""#).status == 202)
            return try PushJob(decoding: try await signal.next().body)
        }
        return (shop, now, bulk)
    }

    @Test("A letter whose queue takes nothing stays, and the others go") func refusedLane() async throws {
        try await RunningService.run(.init(settings: ["BROKER_TOPOLOGY": "operators"])) { running in
            let (shop, now, bulk) = try await Self.letters(running)
            for job in [now, bulk] { try await DeadLetterTests.giveUp(job, running) }
            let queue = running.topology.jobQueue(.bulk)
            try await TestBroker.withConnection(running.broker) { connection in
                try connection.deleteQueue(queue)
                try connection.declareQueue(
                    queue, arguments: ["x-queue-type": "quorum", "x-max-length": 0, "x-overflow": "reject-publish"])
                try connection.bind(
                    queue: queue, to: running.topology.jobsExchange, routingKey: running.topology.jobRoutingKey(.bulk))
            }
            // RabbitMQ takes a message above the limit, and then no more.
            #expect(try await shop.send(#"{"user":"grace"}"#, more: #","lane":"bulk""#).status == 202)
            _ = try await eventually { try await TestBroker.messageCount(queue, running.broker) == 1 ? true : nil }
            let first = try await DeadLetterTests.replay(running)
            #expect(first.number("letters") == 1 && first.number("kept") == 1)
            #expect(first["deliveries"]?.number("sent") == 1 && first["deliveries"]?.number("undecided") == 1)
            let second = try await DeadLetterTests.replay(running)
            #expect(second.number("letters") == 0 && second.number("kept") == 1)
            #expect(try await TestBroker.messageCount(running.topology.jobQueue(.now), running.broker) == 1)

            try await TestBroker.withConnection(running.broker) { connection in
                try connection.deleteQueue(queue)
                try running.topology.declare(on: connection)
            }
            let again = try await running.jobs(.bulk) { signal in
                let third = try await DeadLetterTests.replay(running)
                #expect(third.number("letters") == 1 && third.number("kept") == 0)
                return try PushJob(decoding: try await signal.next().body)
            }
            #expect(again.deliveries == bulk.deliveries)
        }
    }

    @Test("A delivery whose token was replaced waits for the job of its substitute and for its own end") func substitute() {
        let (letter, substitute) = (PushID.random(), PushID.random())
        var resolved = DeadLetterStore.Resolved()
        #expect(resolved.messages(of: letter) == [letter])
        resolved.published[letter] = substitute
        #expect(resolved.messages(of: letter) == [substitute])
        resolved.stopped = [letter]
        #expect(resolved.messages(of: letter) == [substitute, letter])
    }

    @Test("If a later part of a replay fails, the letters of the earlier parts are gone") func laterError() async throws {
        try await RunningService.run { running in
            let (_, now, bulk) = try await Self.letters(running)
            try await DeadLetterTests.giveUp(now, running)
            // They fill the first transaction. The database does not know their notification.
            for _ in 0..<20 {
                var forgotten = now
                forgotten.notification = .timeOrdered(milliseconds: UnixClock.now())
                let names = DeliveryNames(forgotten.notification)
                forgotten.deliveries = (0..<PushJob.maximumDeliveries).map { position in
                    var delivery = now.deliveries[0]
                    delivery.id = names.id(job: 0, position: position)
                    return delivery
                }
                try await DeadLetterTests.giveUp(forgotten, running, outcome: nil)
            }
            try await DeadLetterTests.giveUp(bulk, running)
            for statement: PostgresQuery in [
                """
                CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'not in this test'; END $$
                """,
                """
                CREATE TRIGGER refused BEFORE UPDATE ON notifications FOR EACH ROW WHEN (NEW.lane = 'bulk') EXECUTE FUNCTION refuse()
                """,
            ] { try await running.execute(statement) }
            let first = try await DeadLetterTests.replay(running)
            #expect(first.number("letters") == 1 && first.number("kept") == 21)
            #expect(first["deliveries"]?.number("sent") == 1 && first["deliveries"]?.number("undecided") == 1)
            try await running.execute("DROP TRIGGER refused ON notifications")
            let second = try await DeadLetterTests.replay(running)
            #expect(second.number("letters") == 1 && second["deliveries"]?.number("sent") == 1)
            for lane in [Lane.now, .bulk] {
                #expect(try await TestBroker.messageCount(running.topology.jobQueue(lane), running.broker) == 1, "\(lane)")
            }
        }
    }
}
