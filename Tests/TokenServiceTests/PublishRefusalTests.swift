import Broker
import Logging
import Observability
import Postgres
import PushModel
import RabbitMQ
import TestBroker
import TestSupport
import Testing

@testable import TokenServiceSending

@Suite("A queue that takes nothing", .timeLimit(.minutes(5)))
struct PublishRefusalTests {
    /// One row for each time that the relay took jobs over, with their number. A lease is much longer than ten seconds, and what the broker
    /// refuses is free a second later.
    private static let countClaims: [PostgresQuery] = [
        "CREATE TABLE claims (number bigint)",
        """
        CREATE FUNCTION count_claims() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
            INSERT INTO claims
            SELECT count(*) FROM made WHERE published_at IS NULL AND free_from > now() + interval '10 seconds' HAVING count(*) > 0;
            RETURN NULL;
        END $$
        """,
        "CREATE TRIGGER count_claims AFTER UPDATE ON jobs REFERENCING NEW TABLE AS made FOR EACH STATEMENT EXECUTE FUNCTION count_claims()",
    ]

    @Test("It is asked with one job at a time, and gets all of them once it takes them") func isAskedWithOne() async throws {
        try await RunningService.run(.init(settings: ["BROKER_TOPOLOGY": "operators", "RELAY_LEASE_SECONDS": "3600"])) { running in
            let queue = running.topology.jobQueue(.now)
            try await TestBroker.withConnection(running.broker) { connection in
                try connection.deleteQueue(queue)
                try connection.declareQueue(
                    queue, arguments: ["x-queue-type": "quorum", "x-max-length": 0, "x-overflow": "reject-publish"])
                try connection.bind(
                    queue: queue, to: running.topology.jobsExchange, routingKey: running.topology.jobRoutingKey(.now))
            }
            let shop = try await running.client.makeApp()
            try await shop.register(installation(1), user: "ada", token: token(1))
            for _ in 1...20 { #expect(try await shop.send(#"{"user":"ada"}"#).status == 202) }
            _ = try await eventually { running.metrics.render().contains(#"publish_refused{lane="now"} 1"#) ? true : nil }
            #expect(running.metrics.render().contains(#"publish_refused{lane="bulk"} 0"#))
            // The accepting process has given all of them back: what is leased now, the relay has.
            _ = try await eventually {
                try await running.count(
                    "SELECT count(*) FROM jobs WHERE published_at IS NULL AND free_from > now() + interval '30 minutes'") == 0 ? true : nil
            }
            for statement in Self.countClaims { try await running.execute(statement) }
            _ = try await eventually { try await running.count("SELECT count(*) FROM claims") >= 5 ? true : nil }
            #expect(try await running.number("max", "SELECT max(number) FROM claims") == 1)
            #expect(try await running.count(RunningService.unpublishedJobs) > 10)

            try await TestBroker.withConnection(running.broker) { connection in
                try connection.deleteQueue(queue)
                try running.topology.declare(on: connection)
            }
            try await running.allPublished()
            #expect(running.metrics.render().contains(#"publish_refused{lane="now"} 0"#))
        }
    }

    @Test("An outcome that is refused waits elsewhere, so the job beside it is published once") func refusedOutcome() async throws {
        try await RunningService.run { running in
            let (shop, chief) = try await running.operate()
            for number in 1...2 { try await shop.register(installation(number), user: "ada", token: token(number)) }
            let topology = running.topology
            try await running.jobs { jobs in
                // Every part of the service is connected, and declares nothing any more.
                _ = try await shop.send(#"{"user":"ada"}"#)
                _ = try await jobs.next()
                let hold = try await chief.setHold(#"{"all":true,"reason":"r"}"#)
                let id = try #require(try await shop.send(#"{"user":"ada"}"#).json.text("id"))
                _ = try await shop.post("/v1/apps/shop/installations/\(installation(1))/logout")
                try await TestBroker.withConnection(running.broker) {
                    try $0.unbind(queue: topology.tokenServiceOutcomesQueue, from: topology.outcomesExchange, routingKey: "*.*")
                }
                try await chief.liftHold(hold)
                let job = try PushJob(decoding: try await jobs.next().body)
                #expect(job.notification.description == id && job.deliveries.map(\.installation) == [installation(2)])
                _ = try await eventually {
                    try await TestBroker.messageCount(topology.waitingOutcomesQueue, running.broker) == 1 ? true : nil
                }
                try await running.allPublished()
                #expect(jobs.waiting.isEmpty)
            }
        }
    }

    @Test("While no queue takes an outcome, the job beside it is not published, however often it is tried; then it is, once")
    func refusedEverywhere() async throws {
        try await RunningService.run { running in
            let (shop, chief) = try await running.operate()
            for number in 1...2 { try await shop.register(installation(number), user: "ada", token: token(number)) }
            let topology = running.topology
            try await running.jobs { jobs in
                // Every part of the service is connected, and declares nothing any more.
                _ = try await shop.send(#"{"user":"ada"}"#)
                _ = try await jobs.next()
                let hold = try await chief.setHold(#"{"all":true,"reason":"r"}"#)
                let id = try #require(try await shop.send(#"{"user":"ada"}"#).json.text("id"))
                _ = try await shop.post("/v1/apps/shop/installations/\(installation(1))/logout")
                try await TestBroker.withConnection(running.broker) {
                    try $0.unbind(queue: topology.tokenServiceOutcomesQueue, from: topology.outcomesExchange, routingKey: "*.*")
                    try $0.deleteQueue(topology.waitingOutcomesQueue)
                }
                for statement in Self.countClaims { try await running.execute(statement) }
                try await chief.liftHold(hold)
                _ = try await eventually { try await running.count("SELECT count(*) FROM claims") >= 4 ? true : nil }
                #expect(jobs.waiting.isEmpty)

                try await TestBroker.withConnection(running.broker) { try topology.declare(on: $0) }
                let job = try PushJob(decoding: try await jobs.next().body)
                #expect(job.notification.description == id && job.deliveries.map(\.installation) == [installation(2)])
                try await running.allPublished()
                #expect(jobs.waiting.isEmpty)
            }
        }
    }

    /// Publishing shows what it was refused only when the page is written: two may be under way by then, and a third.
    @Test("A fan-out stops within pages, and is finished once the queue takes jobs again") func fanOut() async throws {
        try await RunningService.run(.init(settings: ["FAN_OUT_PAGE_INSTALLATIONS": "100", "BROKER_TOPOLOGY": "operators"])) { running in
            let shop = try await running.client.makeApp()
            try await running.fill(2000, app: try await running.app())
            try await TestBroker.withConnection(running.broker) { try $0.deleteQueue(running.topology.jobQueue(.bulk)) }
            #expect(try await shop.send(#"{"all":true}"#).status == 202)
            _ = try await eventually { running.metrics.render().contains(#"publish_refused{lane="bulk"} 1"#) ? true : nil }
            // It has given itself back.
            _ = try await eventually { running.metrics.render().contains("push_token_service_fan_outs_live 0") ? true : nil }
            let jobs: PostgresQuery = "SELECT count(*) FROM jobs"
            let made = try await running.count(jobs)
            #expect(1..<10 ~= made)
            // While there are jobs to ask with, nothing more is made.
            for statement in Self.countClaims { try await running.execute(statement) }
            _ = try await eventually { try await running.count("SELECT count(*) FROM claims") >= 5 ? true : nil }
            #expect(try await running.number("max", "SELECT max(number) FROM claims") == 1)
            // But where the machine was so busy that nothing asked for five seconds.
            #expect(try await running.count(jobs) <= made + 4)

            try await TestBroker.withConnection(running.broker) { try running.topology.declare(on: $0) }
            // A fan-out has come to its end with its last page, whose jobs are still to be confirmed then.
            _ = try await eventually {
                let isExpanded = try await running.count("SELECT count(*) FROM fan_outs WHERE ended_at IS NULL") == 0
                let isPublished = try await running.count(RunningService.unpublishedJobs) == 0
                return isExpanded && isPublished ? true : nil
            }
            #expect(try await running.count(jobs) == 20)
        }
    }
}

@Suite("How much the relay hands over at once")
struct RelayWindowTests {
    private let grown = Signal<Void>()

    private func window() -> RelayWindow {
        RelayWindow(logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }) { [grown] in grown.send(()) }
    }

    @Test("Nothing taken: one; everything taken: soon as much as ever") func closesAndOpens() {
        let window = window()
        #expect(window.isOpen(.now))
        window.observe(.now, RelayWindow.Answers([.failed(.nacked), .failed(.unroutable)]))
        #expect(window.size(of: .now) == 1)
        #expect(window.isRefused(.now))
        #expect(window.isOpen(.bulk))
        var sizes: [Int] = []
        while !window.isOpen(.now) {
            window.observe(.now, RelayWindow.Answers([.confirmed]))
            sizes.append(window.size(of: .now))
        }
        #expect(sizes == [8, 64, 200])
        #expect(!window.isRefused(.now))
        #expect(grown.waiting.count == 3)
    }

    @Test("What is taken in part is offered in smaller parts") func halves() {
        let window = window()
        window.observe(.soon, RelayWindow.Answers([.confirmed, .failed(.nacked)]))
        #expect(window.size(of: .soon) == 100)
        #expect(!window.isRefused(.soon))
        for _ in 1...20 { window.observe(.soon, RelayWindow.Answers([.confirmed, .failed(.nacked)])) }
        #expect(window.size(of: .soon) == 1)
        #expect(!window.isRefused(.soon))
    }

    @Test("A fan-out begins where it is the only one to ask") func fanOuts() {
        let (window, start) = (window(), ContinuousClock.Instant.now)
        #expect(window.letsFanOut(.bulk, now: start))
        window.observe(.bulk, RelayWindow.Answers([.failed(.nacked)]), at: start)
        #expect(!window.letsFanOut(.bulk, now: start + .seconds(1)))
        #expect(window.letsFanOut(.now, now: start + .seconds(1)))
        #expect(window.letsFanOut(.bulk, now: start + .seconds(6)))
    }

    @Test("Fan-outs of a lane leave a place for each other lane", arguments: Lane.allCases)
    func places(lane: Lane) {
        var running: [Lane] = []
        while Relay.freePlaces(for: lane, beside: running) > 0 { running.append(lane) }
        #expect(running.count == 2)
        // None of these ends, because their queues do not answer.
        for other in Lane.allCases where other != lane {
            #expect(Relay.freePlaces(for: other, beside: running) == 1)
            running.append(other)
        }
        #expect(Lane.allCases.allSatisfy { Relay.freePlaces(for: $0, beside: running) == 0 })
    }

    @Test("What says nothing of the queue changes nothing") func others() {
        let window = window()
        window.observe(.now, RelayWindow.Answers([.failed(.stopped), .failed(.full), .failed(.deadlineExceeded), .failed(.invalid)]))
        window.observe(.now, RelayWindow.Answers([]))
        #expect(window.isOpen(.now))
        #expect(grown.waiting.isEmpty)
    }
}
