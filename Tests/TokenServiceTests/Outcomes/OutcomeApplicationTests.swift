import Broker
import Postgres
import PushModel
import StrictJSON
import TestSupport
import Testing

@testable import TokenServiceOutcomes
@testable import TokenServiceSending

@Suite("Outcomes count once, whatever order and batches they come in", .serialized, .timeLimit(.minutes(5)))
struct OutcomeApplicationTests {
    private static func event(
        _ outcome: OutcomeClass, of job: PushJob, final: Bool = true, status: Int? = nil, reason: String? = nil, attempt: Int = 1
    ) -> OutcomeEvent {
        OutcomeEvent(
            id: .random(), source: "/push/dispatcher/test", time: UnixClock.now(), app: job.app, outcome: outcome, isFinal: final,
            deliveries: job.deliveries.map {
                OutcomeEvent.Delivery(
                    id: $0.id, notification: job.notification, installation: $0.installation, attempt: attempt, ownerEpoch: $0.ownerEpoch,
                    status: status, reason: reason)
            })
    }

    private static func apply(_ events: [OutcomeEvent], _ running: RunningService) async throws -> OutcomeApplication.Effect {
        try await OutcomeApplication(pool: running.pool).apply(OutcomeBatch(events))
    }

    /// All that outcomes write about deliveries, as text.
    private static func stored(_ running: RunningService) async throws -> [String] {
        try await running.pool.session { session in
            try session.execute(
                """
                SELECT r::text AS line FROM receipts r
                UNION ALL SELECT concat_ws(' ', notification, number, ended) FROM jobs
                UNION ALL SELECT concat_ws(' ', class, sum(count)) FROM outcome_counts GROUP BY class
                UNION ALL SELECT concat_ws(' ', id, state, total, pending, outcomes, completed_at) FROM notifications
                ORDER BY 1
                """
            ).column("line")
        }
    }

    /// A notification to ada's devices, which keeps these receipts.
    private static func sent(_ devices: Int, _ running: RunningService, receipts: String = "all") async throws -> (APITestClient, PushJob) {
        let shop = try await running.client.makeApp()
        for number in 1...devices { try await shop.register(installation(number), user: "ada", token: token(number)) }
        return (shop, try await running.sendAndTake(#"{"user":"ada"}"#, with: shop, more: #","lane":"now","receipts":"\#(receipts)""#))
    }

    @Test("The same outcomes again, and others after them, change nothing", arguments: ["all", "failures"])
    func repeated(receipts: String) async throws {
        try await RunningService.run { running in
            let (shop, job) = try await Self.sent(3, running, receipts: receipts)
            var (good, bad) = (job, job)
            bad.deliveries = [good.deliveries.removeLast()]
            let events = [Self.event(.accepted, of: good, status: 200), Self.event(.rejected, of: bad, status: 400, reason: "BadTopic")]
            let first = try await Self.apply(events, running)
            #expect(first.finished == [.accepted: 2, .rejected: 1] && first.repeated == 0 && first.completedNotifications == 1)
            let stored = try await Self.stored(running)
            for again in [events, [Self.event(.failed, of: job, reason: "too_late")], [Self.event(.accepted, of: job, attempt: 2)]] {
                let effect = try await Self.apply(again, running)
                #expect(effect.finished.isEmpty && effect.repeated == 3 && effect.completedNotifications == 0)
                #expect(try await Self.stored(running) == stored)
            }
            let late = try await Self.apply([Self.event(.throttled, of: job, final: false, status: 429)], running)
            #expect(late == OutcomeApplication.Effect())
            #expect(try await Self.stored(running) == stored)

            let status = try await shop.status(job.notification.description)
            #expect(status["counts"]?.number("accepted") == 2 && status["counts"]?.number("rejected") == 1)
            #expect(status["counts"]?.number("total") == 3 && status["counts"]?.number("pending") == 0)
            #expect(try await running.count("SELECT count(*) FROM receipts") == (receipts == "all" ? 3 : 1))
        }
    }

    /// How the event of an attempt that is not the end and the event of the end come in.
    enum Order: String, CaseIterable, Sendable {
        case attemptFirst = "the attempt, then the end"
        case endFirst = "the end, then the attempt"
        case attemptFirstInOneBatch = "the attempt and the end in one batch"
        case endFirstInOneBatch = "the end and the attempt in one batch"

        func batches(_ attempt: OutcomeEvent, _ end: OutcomeEvent) -> [[OutcomeEvent]] {
            switch self {
            case .attemptFirst: [[attempt], [end]]
            case .endFirst: [[end], [attempt]]
            case .attemptFirstInOneBatch: [[attempt, end]]
            case .endFirstInOneBatch: [[end, attempt]]
            }
        }
    }

    @Test("A second attempt that succeeds makes two attempts", arguments: Order.allCases) func attempts(order: Order) async throws {
        try await RunningService.run { running in
            let (shop, job) = try await Self.sent(1, running)
            let batches = order.batches(
                Self.event(.throttled, of: job, final: false, status: 429, reason: "TooManyRequests"),
                Self.event(.accepted, of: job, status: 200, attempt: 2))
            for batch in batches { _ = try await Self.apply(batch, running) }
            let status = try await shop.status(job.notification.description)
            #expect(status.text("state") == "completed" && status["counts"]?.number("accepted") == 1)
            let delivery = try #require(status["deliveries"]?[0])
            #expect(delivery.text("state") == "accepted" && delivery.number("attempts") == 2)
            // An attempt that is reported after the end is not noted.
            #expect(delivery["last_attempt"]?.text("class") == (order == .endFirst ? nil : "throttled"))
        }
    }

    @Test("An attempt that was put back without having been tried, and an end without one, make none", arguments: Order.allCases)
    func putBack(order: Order) async throws {
        try await RunningService.run { running in
            let (shop, job) = try await Self.sent(1, running)
            let batches = order.batches(
                Self.event(.held, of: job, final: false, reason: "app_held", attempt: 2), Self.event(.expired, of: job, attempt: 2))
            for batch in batches { _ = try await Self.apply(batch, running) }
            let delivery = try #require(try await shop.status(job.notification.description)["deliveries"]?[0])
            #expect(delivery.text("state") == "expired" && delivery.number("attempts") == 1)
        }
    }

    @Test("Where receipts of failures alone are kept, a delivery has one unless its first attempt succeeded", arguments: Order.allCases)
    func failuresAlone(order: Order) async throws {
        try await RunningService.run { running in
            let (shop, job) = try await Self.sent(2, running, receipts: "failures")
            var (once, twice) = (job, job)
            twice.deliveries = [once.deliveries.removeLast()]
            _ = try await Self.apply([Self.event(.accepted, of: once, status: 200)], running)
            let batches = order.batches(
                Self.event(.throttled, of: twice, final: false, status: 429, reason: "TooManyRequests"),
                Self.event(.accepted, of: twice, status: 200, attempt: 2))
            for batch in batches { _ = try await Self.apply(batch, running) }
            let status = try await shop.status(job.notification.description)
            #expect(status.text("state") == "completed" && status["counts"]?.number("accepted") == 2)
            let receipt: PostgresQuery =
                """
                SELECT count(*) FROM receipts WHERE installation = \(twice.deliveries[0].installation) AND class = 'accepted'
                    AND attempts = 2
                """
            #expect(try await running.count(receipt) == 1)
            #expect(try await running.count("SELECT count(*) FROM receipts") == 1)
        }
    }

    @Test("One batch holds outcomes of two notifications, of one that is not there, and of a job that is not there")
    func twoNotifications() async throws {
        try await RunningService.run { running in
            let (shop, first) = try await Self.sent(2, running)
            let second = try await running.sendAndTake(#"{"user":"ada"}"#, with: shop)
            var (good, bad) = (second, second)
            bad.deliveries = [good.deliveries.removeLast()]
            var accepted = Self.event(.accepted, of: first, status: 200)
            accepted.deliveries += Self.event(.accepted, of: good, status: 200).deliveries
            var unknown = accepted.deliveries[0]
            unknown.id = DeliveryNames(first.notification).id(job: 5, position: 0)
            accepted.deliveries.append(unknown)
            unknown.notification = .random()
            unknown.id = DeliveryNames(unknown.notification).id(job: 0, position: 0)
            accepted.deliveries.append(unknown)
            let effect = try await Self.apply([accepted, Self.event(.failed, of: bad, reason: "attempts_used_up")], running)
            #expect(effect.finished == [.accepted: 3, .failed: 1] && effect.repeated == 2 && effect.completedNotifications == 2)
            for (job, accepted, failed) in [(first, Int64(2), Int64(0)), (second, 1, 1)] {
                let counts = try #require(try await shop.status(job.notification.description)["counts"])
                #expect(counts.number("accepted") == accepted && counts.number("failed") == failed && counts.number("pending") == 0)
            }
            #expect(try await running.count("SELECT count(*) FROM jobs WHERE ended = rpad('11', 100, '0')::bit(100)") == 2)
            #expect(try await running.count("SELECT count(*) FROM receipts") == 4)
        }
    }

    /// A dispatcher's event may name a delivery that no job has: of a job that was removed, or by a fault.
    @Test("An event about a place that no job has changes nothing", arguments: [true, false]) func noPlace(isFinal: Bool) async throws {
        try await RunningService.run { running in
            let (_, job) = try await Self.sent(1, running)
            let names = DeliveryNames(job.notification)
            let stored = try await Self.stored(running)
            for id in [names.id(job: 0, position: 150), names.id(job: Int(UInt32.max), position: 0), PushID(high: 1, low: .max)] {
                var event = Self.event(.throttled, of: job, final: isFinal, status: 429)
                event.deliveries[0].id = id
                let effect = try await Self.apply([event], running)
                #expect(effect.finished.isEmpty && effect.repeated == (isFinal ? 1 : 0))
                #expect(try await Self.stored(running) == stored)
            }
        }
    }
}
