import Broker
import Postgres
import PushModel
import StrictJSON
import TestSupport
import Testing

@testable import TokenServiceOutcomes
@testable import TokenServiceRegistry

/// A replay opens a delivery a second time, under its old id: a report of its first life must not count for the second.
@Suite("A replayed delivery's second life", .serialized, .timeLimit(.minutes(5)))
struct DeadLetterReplayTests {
    /// Two devices of one user, of whom the first failed and the other has no outcome yet.
    private struct Scene {
        let shop: APITestClient
        let dead: PushJob
        let other: PushJob

        init(_ running: RunningService, receipts: String, outcome: OutcomeClass = .failed, attempt: Int = 10) async throws {
            let shop = try await running.client.makeApp()
            for number in 1...2 { try await shop.register(installation(number), user: "ada", token: token(number)) }
            let job = try await running.jobs(.soon) { signal in
                _ = try await shop.send(#"{"users":["ada"]}"#, more: #","receipts":"\#(receipts)""#)
                return try PushJob(decoding: try await signal.next().body)
            }
            #expect(job.deliveries.count == 2)
            var (dead, other) = (job, job)
            dead.deliveries = [job.deliveries[0]]
            other.deliveries = [job.deliveries[1]]
            (self.shop, self.dead, self.other) = (shop, dead, other)
            try await DeadLetterTests.giveUp(dead, running, outcome: outcome, attempt: attempt)
        }

        var status: JSONValue {
            get async throws { try await shop.get("/v1/apps/shop/notifications/\(dead.notification)").json }
        }
        var counts: JSONValue? {
            get async throws { try await status["counts"] }
        }
    }

    /// - Returns: the job that goes out, and how many attempts its outcomes are counted from.
    private func replay(_ running: RunningService) async throws -> (job: PushJob, earlier: Int) {
        try await running.jobs(.soon) { signal in
            #expect(try await DeadLetterTests.replay(running)["deliveries"]?.number("sent") == 1)
            let message = try await signal.next()
            let earlier = try #require(message.header(PushJob.earlierAttemptsHeader).flatMap { Int($0) })
            return (try PushJob(decoding: message.body), earlier)
        }
    }

    @Test("Counters are exact however often it fails and is replayed")
    func countersStayExact() async throws {
        try await RunningService.run { running in
            let scene = try await Scene(running, receipts: "failures")
            for round in 1...2 {
                #expect(try await scene.counts?.number("failed") == 1)
                let (again, earlier) = try await replay(running)
                #expect(again.deliveries == scene.dead.deliveries && again.attempt == 0)
                #expect(earlier == round * 10)
                let counts = try await scene.counts
                #expect(counts?.number("failed") == 0 && counts?.number("pending") == 2 && counts?.number("total") == 2)
                #expect(try await scene.status["reasons"]?.arrayValue?.isEmpty == true, "what is replayed ended in no way yet")
                if round == 1 { try await DeadLetterTests.giveUp(again, running, attempt: 20) }
            }
            try await running.report(.accepted, of: scene.dead, status: 200, attempt: 21)
            try await running.report(.accepted, of: scene.other, status: 200)
            let counts = try await running.completed(scene.dead.notification, scene.shop).json["counts"]
            #expect(counts?.number("accepted") == 2 && counts?.number("failed") == 0 && counts?.number("total") == 2)
            #expect(try await running.count(RunningService.countedOutcomes) == 2)
        }
    }

    @Test(
        "A repeated report of the first life neither ends nor marks the second one",
        arguments: ["all", "failures"], [(OutcomeClass.failed, 10), (.unknown, 1), (.expired, 1)])
    func oldReports(receipts: String, end: (outcome: OutcomeClass, attempt: Int)) async throws {
        try await RunningService.run { running in
            let scene = try await Scene(running, receipts: receipts, outcome: end.outcome, attempt: end.attempt)
            let (again, earlier) = try await replay(running)
            #expect(earlier >= end.attempt)
            for _ in 0..<2 {
                try await running.report(
                    .throttled, of: scene.dead, final: false, status: 429, retryAt: UnixClock.now(), attempt: end.attempt)
                try await running.report(end.outcome, of: scene.dead, status: 503, reason: "ServiceUnavailable", attempt: end.attempt)
            }
            // One queue, one order: when this one is applied, those were.
            try await running.report(.accepted, of: scene.other, status: 200)
            let open = try await eventually {
                let counts = try await scene.counts
                return counts?.number("accepted") == 1 ? counts : nil
            }
            #expect(open.number("pending") == 1 && open.number(end.outcome.rawValue) == 0)
            #expect(try await running.count("SELECT count(*) FROM receipts WHERE last_reason = 'replayed'") == 1)
            // An attempt of the second life, and then its end.
            try await running.report(.failed, of: again, final: false, status: 503, reason: "Shutdown", attempt: earlier + 1)
            try await running.report(end.outcome, of: scene.dead, status: 503, attempt: end.attempt)
            try await running.report(.accepted, of: again, status: 200, attempt: earlier + 2)
            let counts = try await running.completed(scene.dead.notification, scene.shop).json["counts"]
            #expect(counts?.number("accepted") == 2 && counts?.number(end.outcome.rawValue) == 0)
        }
    }

    @Test("An old end and the new one in one batch: the new one counts", arguments: ["all", "failures"])
    func oneBatch(receipts: String) async throws {
        try await RunningService.run { running in
            let scene = try await Scene(running, receipts: receipts)
            let (again, earlier) = try await replay(running)
            let events = [
                event(.failed, scene.dead, attempt: 10), event(.accepted, again, attempt: earlier + 1),
                event(.failed, scene.dead, attempt: 10),
            ]
            let effect = try await OutcomeApplication(pool: running.pool).apply(OutcomeBatch(events))
            #expect(effect.finished == [.accepted: 1])
            let counts = try await scene.counts
            #expect(counts?.number("accepted") == 1 && counts?.number("failed") == 0 && counts?.number("pending") == 1)
        }
    }

    @Test("The end of a reopened delivery whose token is gone counts once, however often it is reported", arguments: ["all", "failures"])
    func tokenGone(receipts: String) async throws {
        try await RunningService.run { running in
            let scene = try await Scene(running, receipts: receipts)
            let (again, earlier) = try await replay(running)
            // As for an installation with too many retired ones.
            try await running.execute("DELETE FROM tokens WHERE installation = \(again.deliveries[0].installation)")
            for copy in 1...3 {
                let effect = try await OutcomeApplication(pool: running.pool).apply(
                    OutcomeBatch([event(.accepted, again, attempt: earlier + 1)]))
                #expect(effect.finished == (copy == 1 ? [.accepted: 1] : [:]))
            }
            let counts = try await scene.counts
            #expect(counts?.number("accepted") == 1 && counts?.number("pending") == 1 && counts?.number("total") == 2)
            #expect(try await running.count("SELECT count(*) FROM receipts WHERE class IS NULL") == 0)
            // The other delivery had an attempt before its token went.
            try await running.report(.failed, of: scene.other, final: false, status: 503, reason: "Shutdown", attempt: 1)
            _ = try await eventually { try await running.count("SELECT count(*) FROM receipts WHERE class IS NULL") == 1 ? true : nil }
            try await running.execute("DELETE FROM tokens")
            _ = try await OutcomeApplication(pool: running.pool).apply(OutcomeBatch([event(.accepted, scene.other, attempt: 2)]))
            #expect(try await running.count("SELECT count(*) FROM receipts WHERE class IS NULL") == 0, "no delivery waits")
        }
    }

    @Test("A replay and an erasure do not pass each other: a receipt is written before the erasure looks for receipts, or not at all")
    func erasedMeanwhile() async throws {
        try await RunningService.run { running in
            _ = try await Scene(running, receipts: "failures")
            let app = try await running.app()
            let replayed = try await running.holding(ErasureBarrier.wait(for: app)) {
                let replayed = Task { try await DeadLetterTests.replay(running)["deliveries"]?.number("sent") }
                _ = try await eventually {
                    let waiting = try await running.count(
                        """
                        SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted
                            AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
                        """)
                    return waiting == 1 ? true : nil
                }
                return replayed
            }
            #expect(try await replayed.value == 1)
        }
    }

    @Test("A replay speaks the language of its job") func language() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            for number in 1...2 { try await shop.register(installation(number), user: "ada", token: token(number)) }
            try await running.execute("UPDATE installations SET locale = 'de-AT'")
            let job = try await running.jobs(.soon) { signal in
                _ = try await shop.send(#"{"users":["ada"]}"#, more: #","locales":{"de":{"payload":{"aps":{"alert":"Hallo"}}}}"#)
                return try PushJob(decoding: try await signal.next().body)
            }
            #expect(String(decoding: job.payload, as: UTF8.self).contains("Hallo") && job.deliveries.count == 2)
            try await DeadLetterTests.giveUp(job, running)
            // One of the two goes to a new token, and so into a job of its own.
            try await shop.register(installation(2), user: "ada", token: token(77))
            try await running.execute("UPDATE installations SET locale = 'fr'")
            let again = try await running.jobs(.soon) { signal in
                #expect(try await DeadLetterTests.replay(running)["deliveries"]?.number("sent") == 2)
                return try PushJob(decoding: try await signal.next().body)
            }
            #expect(again.payload == job.payload && Set(again.deliveries.map(\.token.hex)) == [token(1), token(77)])
            #expect(try await running.count("SELECT count(*) FROM jobs WHERE locale = 'de'") == 2)
        }
    }

    private func event(_ outcome: OutcomeClass, _ job: PushJob, attempt: Int) -> OutcomeEvent {
        OutcomeEvent(
            id: .random(), source: "/push/dispatcher/test", time: UnixClock.now(), app: job.app, outcome: outcome, isFinal: true,
            deliveries: job.deliveries.map {
                OutcomeEvent.Delivery(
                    id: $0.id, notification: job.notification, installation: $0.installation, attempt: attempt, status: 200)
            })
    }
}
