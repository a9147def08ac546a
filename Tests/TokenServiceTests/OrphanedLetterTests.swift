import Broker
import Postgres
import PushModel
import StrictJSON
import TestSupport
import Testing
import TokenService

/// A job that the broker gave up by itself: no dispatcher has said what became of its deliveries.
@Suite("What the broker gave up is replayed, or ends, also where a job alone knows of it", .serialized, .timeLimit(.minutes(5)))
struct OrphanedLetterTests {
    private static func send(
        _ running: RunningService, devices: Int, receipts: String
    ) async throws -> (shop: APITestClient, job: PushJob) {
        let shop = try await running.client.makeApp()
        for number in 1...devices { try await shop.register(installation(number), user: "ada", token: token(number)) }
        let job = try await running.jobs(.soon) { signal in
            _ = try await shop.send(#"{"users":["ada"]}"#, more: #","receipts":"\#(receipts)""#)
            return try PushJob(decoding: try await signal.next().body)
        }
        #expect(job.deliveries.count == devices)
        return (shop, job)
    }

    private static func orphan(_ job: PushJob, _ running: RunningService) async throws {
        try await DeadLetterTests.deadLetter(job.encoded(), running, headers: ["x-first-death-reason": "delivery_limit"])
    }

    private static func part(_ job: PushJob, _ index: Int) -> PushJob {
        var part = job
        part.deliveries = [job.deliveries[index]]
        return part
    }

    /// A 429 had made a receipt of the first, and of the first only.
    @Test("A delivery without an outcome is sent again and counted once, whether it has a receipt or not; twice replayed, too")
    func countedOnce() async throws {
        try await RunningService.run { running in
            let (shop, job) = try await Self.send(running, devices: 2, receipts: "failures")
            let (tried, untried) = (Self.part(job, 0), Self.part(job, 1))
            try await running.report(
                .throttled, of: tried, final: false, status: 429, reason: "TooManyRequests", retryAt: UnixClock.now())
            _ = try await eventually { try await running.count("SELECT count(*) FROM receipts") == 1 ? true : nil }
            var earlier = 0
            for _ in 1...2 {
                try await Self.orphan(job, running)
                earlier = try await running.jobs(.soon) { signal in
                    let result = try await DeadLetterTests.replay(running)
                    try #require(result["deliveries"]?.number("sent") == 2 && result.number("letters") == 1, "\(result)")
                    let message = try await signal.next()
                    #expect(try PushJob(decoding: message.body).deliveries == job.deliveries)
                    return try #require(message.header(PushJob.earlierAttemptsHeader).flatMap { Int($0) })
                }
                #expect(try await running.number("pending", "SELECT pending FROM notifications") == 2)
            }
            // A late report of the earlier life, before the end of one: one queue, one order.
            try await running.report(.accepted, of: untried, status: 200, attempt: 1)
            try await running.report(.accepted, of: tried, status: 200, attempt: earlier + 1)
            _ = try await eventually {
                try await running.count(RunningService.countedOutcomes) > 0 ? true : nil
            }
            let open = try await shop.status(job.notification.description)["counts"]
            try #require(open?.number("pending") == 1 && open?.number("accepted") == 1, "\(String(describing: open))")
            for _ in 1...2 { try await running.report(.failed, of: untried, status: 503, attempt: earlier + 1) }
            let counts = try await running.completed(job.notification, shop).json["counts"]
            #expect(counts?.number("accepted") == 1 && counts?.number("failed") == 1 && counts?.number("total") == 2)
            #expect(try await running.count(RunningService.countedOutcomes) == 2)
            #expect(try await DeadLetterTests.list(running).number("matched") == 0, "and no outcome was put aside")
        }
    }

    @Test("What its attempts came to goes with a replay, and ends what is not sent again as unknown")
    func remembersAttempts() async throws {
        try await RunningService.run { running in
            let (shop, sent) = try await Self.send(running, devices: 2, receipts: "all")
            var job = sent
            job.attempt = 1
            // One of the two has another owner when it is replayed.
            try await shop.register(installation(2), user: "grace", token: token(2))
            let stays = try #require(job.deliveries.firstIndex { $0.installation == installation(1) })
            for index in job.deliveries.indices { job.deliveries[index].earlierOutcome = .unknown }
            try await Self.orphan(job, running)
            let again = try await running.jobs(.soon) { signal in
                let result = try await DeadLetterTests.replay(running)
                #expect(result["deliveries"]?.number("sent") == 1 && result["deliveries"]?.number("fenced") == 1, "\(result)")
                return try PushJob(decoding: try await signal.next().body)
            }
            #expect(again.deliveries == [job.deliveries[stays]])
            let counts = try await eventually {
                let counts = try await shop.status(job.notification.description)["counts"]
                return counts?.number("pending") == 1 ? counts : nil
            }
            #expect(counts.number("unknown") == 1 && counts.number("fenced") == 0)
            #expect(try await running.count("SELECT count(*) FROM receipts WHERE class = 'unknown' AND reason = 'fenced'") == 1)
        }
    }

    enum Change: String, CaseIterable {
        case logout, retired, erased, cancelled, replaced

        /// What the replay says.
        var disposition: String {
            switch self {
            case .logout: "fenced"
            case .retired, .erased: "token_gone"
            case .cancelled: "cancelled"
            case .replaced: "sent"
            }
        }

        var outcome: String { self == .cancelled ? "cancelled" : "fenced" }
    }

    private static func make(_ change: Change, of job: PushJob, _ shop: APITestClient, _ running: RunningService) async throws {
        switch change {
        case .logout: #expect(try await shop.post("/v1/apps/shop/installations/\(installation(1))/logout").status == 200)
        case .retired: try await running.execute("UPDATE tokens SET state = 'retired', retired_reason = 'gone', retired_at = now()")
        case .erased: try await running.execute("DELETE FROM tokens")
        case .cancelled:
            #expect(try await shop.delete("/v1/apps/shop/notifications/\(job.notification)").json.text("state") == "cancelled")
        case .replaced: try await shop.register(installation(1), user: "ada", token: token(77))
        }
    }

    @Test("What may not be sent any more gets its outcome", arguments: ["all", "failures"], Change.allCases)
    func ended(receipts: String, change: Change) async throws {
        try await RunningService.run { running in
            let (shop, job) = try await Self.send(running, devices: 1, receipts: receipts)
            try await running.sending(job.notification, shop)
            try await Self.make(change, of: job, shop, running)
            try await Self.orphan(job, running)
            try await running.jobs(.soon) { signal in
                let result = try await DeadLetterTests.replay(running)
                try #require(result["deliveries"]?.number(change.disposition) == 1 && result.number("letters") == 1, "\(result)")
                if change == .replaced {
                    let again = try PushJob(decoding: try await signal.next().body)
                    #expect(again.deliveries.map(\.token.hex) == [token(77)])
                    try await running.report(.accepted, of: again, status: 200)
                } else {
                    #expect(signal.waiting.isEmpty)
                }
            }
            let status = try await eventually {
                let status = try await shop.status(job.notification.description)
                return status["counts"]?.number("pending") == 0 ? status : nil
            }
            #expect(status["counts"]?.number(change.outcome) == 1)
            #expect(status["counts"]?.number("accepted") == (change == .replaced ? 1 : 0))
            #expect(status["counts"]?.number("total") == (change == .replaced ? 2 : 1))
            #expect(status.text("state") == (change == .cancelled ? "cancelled" : "completed") && status.text("completed_at") != nil)
            #expect(try await DeadLetterTests.list(running).number("matched") == 0)
        }
    }

    @Test("Without a receipt, the job shows whether a letter's outcome is on its way or was a good one", arguments: [false, true])
    func outcomeOfJob(isOrphan: Bool) async throws {
        try await RunningService.run { running in
            let (shop, job) = try await Self.send(running, devices: 1, receipts: "failures")
            if isOrphan {
                try await Self.orphan(job, running)
            } else {
                try await DeadLetterTests.giveUp(job, running, outcome: nil)
                let early = try await DeadLetterTests.replay(running)
                #expect(early["deliveries"]?.number("undecided") == 1 && early.number("kept") == 1, "\(early)")
            }
            try await running.report(.accepted, of: job, status: 200)
            _ = try await running.completed(job.notification, shop)
            let late = try await DeadLetterTests.replay(running)
            #expect(late["deliveries"]?.number("has_outcome") == 1 && late.number("kept") == 0, "\(late)")
            #expect(try await running.count("SELECT count(*) FROM receipts") == 0)
        }
    }

    @Test("Past its end it is reported as expired, and can still be replayed with more time", arguments: ["all", "failures"])
    func expired(receipts: String) async throws {
        try await RunningService.run { running in
            let (shop, job) = try await Self.send(running, devices: 1, receipts: receipts)
            try await running.sending(job.notification, shop)
            try await running.execute("UPDATE notifications SET expires_at = now()")
            try await Self.orphan(job, running)
            let result = try await DeadLetterTests.replay(running)
            #expect(result["deliveries"]?.number("expired") == 1 && result.number("kept") == 1, "\(result)")
            let counts = try await eventually {
                let counts = try await shop.status(job.notification.description)["counts"]
                return counts?.number("pending") == 0 ? counts : nil
            }
            #expect(counts.number("expired") == 1)
            try await running.jobs(.soon) { signal in
                let result = try await DeadLetterTests.replay(running, #"{"all":true,"extend_seconds":600}"#)
                try #require(result["deliveries"]?.number("sent") == 1, "\(result)")
                try await running.report(.accepted, of: try PushJob(decoding: try await signal.next().body), status: 200, attempt: 3)
            }
            let settled = try await running.completed(job.notification, shop).json["counts"]
            #expect(settled?.number("accepted") == 1 && settled?.number("expired") == 0 && settled?.number("total") == 1)
        }
    }

    @Test("With a local time the end is the delivery's own, not that of the last time zone", arguments: [false, true])
    func ownEnd(isExtended: Bool) async throws {
        try await RunningService.run { running in
            var (shop, job) = try await Self.send(running, devices: 1, receipts: "all")
            try await running.sending(job.notification, shop)
            try await running.execute("UPDATE fan_outs SET lifetime_ms = 3600000")
            let whole = job.expiresAt
            job.expiresAt = UnixClock.now()
            try await Self.orphan(job, running)
            guard isExtended else {
                let result = try await DeadLetterTests.replay(running)
                #expect(result["deliveries"]?.number("expired") == 1 && result.number("kept") == 1, "\(result)")
                return
            }
            let again = try await running.jobs(.soon) { signal in
                let result = try await DeadLetterTests.replay(running, #"{"all":true,"extend_seconds":600}"#)
                try #require(result["deliveries"]?.number("sent") == 1, "\(result)")
                return try PushJob(decoding: try await signal.next().body)
            }
            #expect(again.expiresAt >= job.expiresAt + 600_000 && again.expiresAt < whole)
        }
    }

    @Test("It counts on from its letter, where that knows of more attempts") func countsOnFromTheLetter() async throws {
        try await RunningService.run { running in
            var (_, job) = try await Self.send(running, devices: 1, receipts: "all")
            job.attempt = 3
            try await Self.orphan(job, running)
            let earlier = try await running.jobs(.soon) { signal in
                _ = try await DeadLetterTests.replay(running)
                return try await signal.next().header(PushJob.earlierAttemptsHeader).flatMap { Int($0) }
            }
            #expect((earlier ?? 0) >= 3)
        }
    }
}
