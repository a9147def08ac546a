import Broker
import Observability
import Postgres
import PushModel
import StrictJSON
import TestBroker
import TestSupport
import Testing

@Suite("What outcomes do", .serialized, .timeLimit(.minutes(5)))
struct OutcomeTests {
    /// Registers, sends, and reports the outcome of the one delivery; returns the installation's record and the status.
    private static func outcome(
        _ running: RunningService, _ outcome: OutcomeClass, status: Int? = nil, reason: String? = nil,
        timestamp: (Int64) -> Int64? = { _ in nil }, sentAt: (Int64) -> Int64? = { $0 + 1 }
    ) async throws -> (record: JSONValue, status: JSONValue) {
        let shop = try await running.client.makeApp()
        let registered = try await shop.register(installation(1), user: "ada", token: token(1)).json["tokens"]?[0]?.text("registered_at")
        let at = try #require(registered.flatMap { RFC3339.milliseconds($0) })
        let job = try await running.sendAndTake(#"{"user":"ada"}"#, with: shop)
        try await running.report(outcome, of: job, status: status, reason: reason, timestamp: timestamp(at), sentAt: sentAt(at))
        let answer = try await running.completed(job.notification, shop)
        return (try await shop.record(installation(1)), answer.json)
    }

    @Test(
        "A 410 retires only a token that was registered at or before its timestamp",
        arguments: [
            (Int64(-1), true), (0, false), (1, false),
        ])
    func a410RetiresOnlyWhatWasRegisteredAtOrBeforeIt(offset: Int64, survives: Bool) async throws {
        try await RunningService.run { running in
            let (record, status) = try await Self.outcome(
                running, .tokenGone, status: 410, reason: "Unregistered", timestamp: { $0 + offset }, sentAt: { $0 + 1000 })
            #expect(record.tokenStates == ["\(hint(1)) \(survives ? "active" : "retired gone")"])
            #expect(status["counts"]?.number("token_gone") == 1)
            #expect(status["deliveries"]?[0]?.number("status") == 410)
        }
    }

    @Test("For a 410 without a timestamp, the moment of sending decides", arguments: [(Int64(-1), true), (1, false)])
    func a410WithoutATimestampIsJudgedByTheMomentOfSending(offset: Int64, survives: Bool) async throws {
        try await RunningService.run { running in
            let (record, _) = try await Self.outcome(running, .tokenGone, status: 410, reason: "ExpiredToken", sentAt: { $0 + offset })
            #expect(record.tokenStates == ["\(hint(1)) \(survives ? "active" : "retired gone")"])
        }
    }

    @Test(
        "Every other class of outcome leaves the token alone",
        arguments: OutcomeClass.allCases.filter { $0 != .tokenGone && $0 != .tokenRejected }
    )
    func everyOtherClassLeavesTheTokenAlone(outcome: OutcomeClass) async throws {
        try await RunningService.run { running in
            let (record, status) = try await Self.outcome(
                running, outcome, status: 403, reason: "InvalidProviderToken", timestamp: { $0 + 1000 })
            #expect(record.tokenStates == ["\(hint(1)) active"])
            #expect(status["counts"]?.number(outcome.rawValue) == 1)
            #expect(status["counts"]?.number("pending") == 0)
        }
    }

    @Test("The service retires a rejected token") func rejectedToken() async throws {
        try await RunningService.run { running in
            let (record, _) = try await Self.outcome(running, .tokenRejected, status: 400, reason: "BadDeviceToken")
            #expect(record.tokenStates == ["\(hint(1)) retired rejected"])
        }
    }

    @Test("The service retires no token if too many are rejected") func tooManyRejectedTokensRetireNone() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            try await withThrowingTaskGroup(of: Void.self) { group in
                for number in 1...25 { group.addTask { try await shop.register(installation(number), user: "ada", token: token(number)) } }
                try await group.waitForAll()
            }
            let job = try await running.sendAndTake(#"{"user":"ada"}"#, with: shop)
            try await running.report(.tokenRejected, of: job, status: 400, reason: "BadDeviceToken", sentAt: UnixClock.now() + 1000)
            _ = try await running.completed(job.notification, shop)
            #expect(try await running.count("SELECT count(*) FROM tokens WHERE state = 'retired'") == 0)
            try await running.counted("brake_engaged_total", 1)
        }
    }

    @Test("The service notes a throttled device, and the delivery goes on") func throttledDevice() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            try await shop.register(installation(1), user: "ada", token: token(1))
            let job = try await running.sendAndTake(#"{"user":"ada"}"#, with: shop)
            let later = UnixClock.now() + 30_000
            try await running.report(
                .throttled, of: job, final: false, status: 429, reason: "TooManyRequests", sentAt: UnixClock.now(), retryAt: later)
            let delivery = try await eventually { () -> JSONValue? in
                let delivery = try await shop.status(job.notification.description)["deliveries"]?[0]
                return delivery?["last_attempt"] == nil ? nil : delivery
            }
            #expect(delivery.text("state") == "pending")
            #expect(delivery.number("attempts") == 1)
            #expect(delivery["last_attempt"]?.text("class") == "throttled")
            #expect(delivery["last_attempt"]?.text("retry_at") == RFC3339.text(milliseconds: later))
            #expect(try await shop.record(installation(1)).text("throttled_until") == RFC3339.text(milliseconds: later))
            try await running.report(.accepted, of: job, status: 200, attempt: 2)
            let status = try await running.completed(job.notification, shop).json
            #expect(status["deliveries"]?[0]?.number("attempts") == 2)
            #expect(status["counts"]?.number("accepted") == 1)
        }
    }

    @Test("What was put back before it was tried is no attempt, neither in the meantime nor at its end")
    func attemptsAreTries() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            for number in 1...3 { try await shop.register(installation(number), user: "ada", token: token(number)) }
            let job = try await running.sendAndTake(#"{"user":"ada"}"#, with: shop)
            func part(_ number: Int) -> PushJob {
                var part = job
                part.deliveries = job.deliveries.filter { $0.installation == installation(number) }
                return part
            }
            func attempts() async throws -> [Int64?] {
                let listed = try await shop.status(job.notification.description)["deliveries"]?.arrayValue ?? []
                return (1...3).map { number in listed.first { $0.text("hint") == hint(number) }?.number("attempts") }
            }
            let (now, later) = (UnixClock.now(), UnixClock.now() + 30_000)
            try await running.report(
                .throttled, of: part(1), final: false, status: 429, reason: "TooManyRequests", sentAt: now, retryAt: later)
            try await running.report(.held, of: part(1), final: false, reason: "app_held", retryAt: later, attempt: 2)
            try await running.report(.unknown, of: part(2), final: false, reason: "timed_out", sentAt: now, retryAt: later)
            try await running.report(.throttled, of: part(3), final: false, reason: "device_throttled", retryAt: later)
            _ = try await eventually {
                try await running.count(
                    "SELECT count(*) FROM deliveries WHERE last_reason IN ('app_held', 'timed_out', 'device_throttled')") == 3
                    ? true : nil
            }
            #expect(try await attempts() == [1, 1, 0])
            let export = try await running.client.post("/v1/apps/shop/users/ada/export").json
            let exported = export["notifications"]?[0]?["deliveries"]?.arrayValue?.compactMap { $0.number("attempts") }
            #expect(exported?.sorted() == [0, 1, 1])
            try await running.report(.expired, of: part(1), attempt: 2)
            try await running.report(.accepted, of: part(2), status: 200, attempt: 2)
            try await running.report(.cancelled, of: part(3))
            _ = try await running.completed(job.notification, shop)
            #expect(try await attempts() == [1, 2, 0])
        }
    }

    @Test("The same outcomes again change nothing") func repeatedOutcomes() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            for number in 1...3 { try await shop.register(installation(number), user: "ada", token: token(number)) }
            let job = try await running.sendAndTake(#"{"user":"ada"}"#, with: shop)
            for _ in 1...3 { try await running.report(.accepted, of: job, status: 200) }
            try await running.report(.failed, of: job, reason: "too_late")
            let status = try await running.completed(job.notification, shop)
            _ = try await eventually {
                try await TestBroker.messageCount(running.topology.tokenServiceOutcomesQueue, running.broker) == 0 ? true : nil
            }
            _ = try await eventually { running.metrics.render().contains("push_token_service_outcomes_repeated_total 9") ? true : nil }
            #expect(try await shop.get("/v1/apps/shop/notifications/\(job.notification)").bytes == status.bytes)
            #expect(status.json["counts"]?.number("accepted") == 3)
        }
    }

    @Test("An unreadable outcome goes to the dead letters and blocks nothing") func unreadableOutcome() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            try await shop.register(installation(1), user: "ada", token: token(1))
            let job = try await running.sendAndTake(#"{"user":"ada"}"#, with: shop)
            try await running.publishOutcome(Array("this is not JSON".utf8), routingKey: "shop.accepted")
            try await running.report(.accepted, of: job, status: 200)
            _ = try await running.completed(job.notification, shop)
            try await running.tap(Subscription(queue: running.topology.deadQueue, prefetch: 10)) { signal in
                let dead = try await signal.next()
                #expect(dead.body == Array("this is not JSON".utf8))
                #expect(dead.header("push-reason") == "undecodable_outcome")
            }
        }
    }
}
