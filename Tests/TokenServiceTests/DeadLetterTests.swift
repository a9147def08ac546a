import Broker
import Observability
import Postgres
import PushModel
import StrictJSON
import TestBroker
import TestSupport
import Testing
import TokenService

@Suite("Dead letters: seen, replayed, dropped", .serialized, .timeLimit(.minutes(5)))
struct DeadLetterTests {
    static let path = "/v1/admin/dead-letters"

    /// What a dispatcher does when it gives up: the outcome, then the letter.
    static func giveUp(
        _ job: PushJob, _ running: RunningService, reason: String = "attempts_used_up", outcome: OutcomeClass? = .failed, attempt: Int = 10
    ) async throws {
        if let outcome {
            try await running.report(outcome, of: job, status: 503, reason: "ServiceUnavailable", attempt: attempt)
            let ids = job.deliveries.map(\.id)
            _ = try await eventually {
                let applied = try await running.count(
                    """
                    SELECT count(*) FROM deliveries
                    WHERE notification = \(job.notification) AND id = ANY (\(ids)::uuid[]) AND class IS NOT NULL
                    """)
                return applied == ids.count ? true : nil
            }
        }
        var given = job
        given.attempt = attempt
        try await deadLetter(given.encoded(), running, headers: ["push-reason": reason])
    }

    static func deadLetter(_ body: [UInt8], _ running: RunningService, headers: [String: String]) async throws {
        let letter = OutgoingMessage(
            exchange: running.topology.deadExchange, routingKey: "now", messageID: .timeOrdered(milliseconds: UnixClock.now()),
            contentType: PushJob.contentType, headers: headers, body: body)
        #expect(await running.service.publisher.publish([letter], deadline: .seconds(30)) == [.confirmed])
    }

    static func list(_ running: RunningService, _ query: String = "") async throws -> JSONValue {
        let answer = try await running.client.get(path + query)
        #expect(answer.status == 200)
        return answer.json
    }

    static func replay(_ running: RunningService, _ body: String = #"{"all":true}"#) async throws -> JSONValue {
        let answer = try await running.client.post(path + "/replay", body)
        #expect(answer.status == 200)
        return answer.json
    }

    /// Ada on a number of devices, and a job to them.
    static func job(_ running: RunningService, devices: Int = 1, more: String = "") async throws -> (APITestClient, PushJob) {
        let shop = try await running.client.makeApp()
        for number in 1...devices { _ = try await shop.register(installation(number), user: "ada", token: token(number)) }
        return (shop, try await running.sendAndTake(#"{"user":"ada"}"#, with: shop, more: more))
    }

    @Test("The list counts and filters dead letters, and shows neither tokens nor payloads") func filteredList() async throws {
        try await RunningService.run { running in
            let (_, job) = try await Self.job(running, devices: 3)
            try await Self.giveUp(job, running)
            try await Self.deadLetter(Array("no job".utf8), running, headers: ["push-reason": "undecodable", "push-detail": "byte 0"])
            let list = try await Self.list(running)
            #expect(list.number("matched") == 2 && list.number("seen") == 2)
            #expect(list["complete"]?.boolValue == true)
            #expect(list["counts"]?.arrayValue?.map { $0.text("reason") } == ["attempts_used_up", "undecodable"])
            #expect(list["counts"]?[0]?.number("deliveries") == 3)
            #expect(list["letters"]?[1]?.text("detail") == "byte 0")
            for (query, count) in [
                ("?app=shop", 1), ("?app=other", 0), ("?reason=undecodable", 1), ("?lane=now", 1), ("?lane=bulk", 0),
                ("?notification=\(job.notification)", 1), ("?limit=1", 2),
            ] as [(String, Int64)] { #expect(try await Self.list(running, query).number("matched") == count, "\(query)") }
            let id = try #require(list["letters"]?[0]?.text("id"))
            let shown = try await running.client.get(Self.path + "/" + id)
            #expect(shown.json["job"]?["deliveries"]?.arrayValue?.count == 3)
            #expect(!String(decoding: shown.bytes, as: UTF8.self).contains(job.deliveries[0].token.hex))
            #expect(shown.json["job"]?["payload"] == nil)
            #expect(try await running.client.get("\(Self.path)/\(PushID.random())").status == 404)
        }
    }

    @Test("A replayed delivery goes out under the same id, and the notification completes again") func sameID() async throws {
        try await RunningService.run { running in
            let (shop, job) = try await Self.job(running, devices: 2)
            var dead = job
            dead.deliveries = [job.deliveries[0]]
            var fine = job
            fine.deliveries = [job.deliveries[1]]
            try await running.report(.accepted, of: fine, status: 200)
            try await Self.giveUp(dead, running)
            _ = try await running.completed(job.notification, shop)
            let again = try await running.jobs { signal in
                let result = try await Self.replay(running)
                #expect(result["deliveries"]?.number("sent") == 1)
                #expect(result.number("letters") == 1 && result.number("kept") == 0 && result.number("remaining") == 0)
                return try PushJob(decoding: try await signal.next().body)
            }
            #expect(again.deliveries == dead.deliveries, "what was accepted is not sent again")
            #expect(again.payload == job.payload && again.attempt == 0 && again.collapseID == job.collapseID)
            #expect(try await Self.list(running).number("matched") == 0)
            let open = try await shop.get("/v1/apps/shop/notifications/\(job.notification)").json
            #expect(open.text("state") == "sending")
            #expect(open["counts"]?.number("pending") == 1)
            try await running.report(.accepted, of: again, status: 200, attempt: 11)
            let status = try await running.completed(job.notification, shop).json
            #expect(status["counts"]?.number("accepted") == 2 && status["counts"]?.number("failed") == 0)
            try await running.counted("dead_letters_replayed_total", 1)
        }
    }

    @Test("A replay sends nothing to a device that its user has left", arguments: ["logout", "other user", "deregistered"])
    func leftDevice(change: String) async throws {
        try await RunningService.run { running in
            let (shop, job) = try await Self.job(running)
            try await Self.giveUp(job, running)
            let place = "/v1/apps/shop/installations/\(installation(1))"
            switch change {
            case "logout": #expect(try await shop.post(place + "/logout").status == 200)
            case "deregistered": #expect(try await shop.delete(place).status == 204)
            default: _ = try await shop.register(installation(1), user: "grace", token: token(1))
            }
            try await running.jobs { signal in
                let result = try await Self.replay(running)
                #expect(result["deliveries"]?.number("fenced") == 1)
                #expect(result.number("letters") == 1)
                #expect(signal.waiting.isEmpty)
            }
            #expect(try await Self.list(running).number("matched") == 0)
            let status = try await shop.get("/v1/apps/shop/notifications/\(job.notification)").json
            #expect(status["counts"]?.number("failed") == 1, "its outcome stands")
        }
    }

    @Test("A replay goes to the token that the installation has now") func currentToken() async throws {
        try await RunningService.run { running in
            let (shop, job) = try await Self.job(running)
            try await Self.giveUp(job, running)
            _ = try await shop.register(installation(1), user: "ada", token: token(77))
            let again = try await running.jobs { signal in
                #expect(try await Self.replay(running)["deliveries"]?.number("sent") == 1)
                return try PushJob(decoding: try await signal.next().body)
            }
            #expect(again.deliveries.map(\.token.hex) == [token(77)])
            #expect(again.deliveries[0].id != job.deliveries[0].id, "one id, one token")
            try await running.report(.accepted, of: again, status: 200)
            let status = try await running.completed(job.notification, shop).json
            #expect(status["counts"]?.number("accepted") == 1 && status["counts"]?.number("failed") == 1)
            #expect(status["counts"]?.number("total") ?? 2 == 2)
        }
    }

    @Test("A replay to another token keeps its id when it is repeated, and counts once") func repeatedReplay() async throws {
        try await RunningService.run { running in
            let (shop, job) = try await Self.job(running, devices: 2)
            try await Self.giveUp(job, running)
            for number in 1...2 { try await shop.register(installation(number), user: "ada", token: token(70 + number)) }
            var published: [[PushJob.Delivery]] = []
            for _ in 1...2 {
                let again = try await running.jobs { signal in
                    #expect(try await Self.replay(running)["deliveries"]?.number("sent") == 2)
                    return try PushJob(decoding: try await signal.next().body)
                }
                published.append(again.deliveries)
                // The process dies between the broker's confirmation and the letter's removal.
                try await Self.deadLetter(job.encoded(), running, headers: ["push-reason": "attempts_used_up"])
            }
            #expect(published[0] == published[1])
            #expect(Set(published[0].map(\.token.hex)) == [token(71), token(72)])
            #expect(try await running.number("total", "SELECT total FROM notifications") == 4)
            #expect(try await running.number("pending", "SELECT pending FROM notifications") == 2)
            #expect(try await running.count("SELECT count(*) FROM jobs") == 2)
            var again = job
            again.deliveries = published[0]
            try await running.report(.failed, of: again, status: 503)
            _ = try await running.completed(job.notification, shop)
            #expect(try await Self.replay(running)["deliveries"]?.number("has_outcome") == 2, "the present tokens have had it")
        }
    }

    @Test("A replay sends an expired delivery only if the operator gives it more time") func moreTime() async throws {
        try await RunningService.run { running in
            let (shop, job) = try await Self.job(running)
            try await Self.giveUp(job, running, reason: "expires_before_retry")
            try await running.execute(
                "UPDATE notifications SET expires_at = now() - interval '1 minute', apns_expiration = 1000")
            let left = try await Self.replay(running)
            #expect(left["deliveries"]?.number("expired") == 1 && left.number("kept") == 1 && left.number("letters") == 0)
            #expect(try await Self.list(running).number("matched") == 1)
            let before = UnixClock.now()
            let again = try await running.jobs { signal in
                let result = try await Self.replay(running, #"{"all":true,"extend_seconds":600}"#)
                #expect(result["deliveries"]?.number("sent") == 1)
                return try PushJob(decoding: try await signal.next().body)
            }
            #expect(again.expiresAt >= before + 590_000 && again.expiresAt <= UnixClock.now() + 610_000)
            #expect(try #require(again.apnsExpiration) >= before / 1000 + 590)
            try await running.report(.accepted, of: again, status: 200, attempt: 11)
            _ = try await running.completed(job.notification, shop)
        }
    }

    @Test("A replay leaves a delivery without an outcome alone, unless the broker gave its job up") func noOutcomeYet() async throws {
        try await RunningService.run { running in
            let (_, job) = try await Self.job(running)
            try await Self.giveUp(job, running, outcome: nil)
            #expect(try await Self.replay(running)["deliveries"]?.number("undecided") == 1)
            #expect(try await running.client.post(Self.path + "/drop", #"{"all":true}"#).json.number("letters") == 1)
            // A job that came back fifty times carries the broker's header instead of ours.
            try await Self.deadLetter(job.encoded(), running, headers: ["x-first-death-reason": "delivery_limit"])
            let again = try await running.jobs { signal in
                #expect(try await Self.replay(running)["deliveries"]?.number("sent") == 1)
                return try PushJob(decoding: try await signal.next().body)
            }
            #expect(again.deliveries == job.deliveries)
        }
    }

    @Test("A replay that was broken off can be repeated, and nothing is lost") func brokenOff() async throws {
        try await RunningService.run { running in
            let (_, job) = try await Self.job(running)
            try await Self.giveUp(job, running)
            // The process dies between its commit and the broker's confirmation: the registry is reopened, the letter is still there.
            try await running.execute(
                """
                UPDATE receipts SET class = NULL, status = NULL, reason = NULL, attempts = 0, last_reason = 'replayed', is_replayed = true
                """)
            try await running.execute("UPDATE notifications SET pending = 1, state = 'sending', completed_at = NULL")
            let again = try await running.jobs { signal in
                #expect(try await Self.replay(running)["deliveries"]?.number("sent") == 1)
                return try PushJob(decoding: try await signal.next().body)
            }
            #expect(again.deliveries == job.deliveries)
            #expect(try await running.number("pending", "SELECT pending FROM notifications") == 1, "counted once")
            #expect(try await Self.list(running).number("matched") == 0)
        }
    }

    @Test("A replay does not send a delivery again that APNs accepted after all") func acceptedAfterAll() async throws {
        try await RunningService.run { running in
            let (_, job) = try await Self.job(running)
            try await Self.giveUp(job, running, outcome: .accepted)
            let result = try await Self.replay(running)
            #expect(result["deliveries"]?.number("has_outcome") == 1 && result.number("letters") == 1)
        }
    }

    @Test("A drop removes only the letters that its request names, and refuses a request that names none")
    func namedLetters() async throws {
        try await RunningService.run { running in
            let (_, job) = try await Self.job(running)
            try await Self.giveUp(job, running)
            for text in ["one", "two", "three"] {
                try await Self.deadLetter(Array(text.utf8), running, headers: ["push-reason": "undecodable"])
            }
            for body in ["{}", #"{"all":false}"#, #"{"all":true,"app":"shop"}"#, #"{"ids":[]}"#, #"{"everything":true}"#] {
                #expect(try await running.client.post(Self.path + "/drop", body).status == 400, "\(body)")
                #expect(try await running.client.post(Self.path + "/replay", body).status == 400, "\(body)")
            }
            #expect(try await Self.replay(running, #"{"reason":"undecodable"}"#).number("unreadable") == 3)
            let letters = try await Self.list(running, "?reason=undecodable")["letters"]?.arrayValue ?? []
            let id = try #require(letters[1].text("id"))
            #expect(try await running.client.post(Self.path + "/drop", #"{"ids":["\#(id)"]}"#).json.number("letters") == 1)
            #expect(try await Self.list(running, "?reason=undecodable").number("matched") == 2)
            #expect(try await running.client.post(Self.path + "/drop", #"{"app":"shop"}"#).json.number("deliveries") == 1)
            #expect(try await Self.list(running).number("matched") == 2)
            try await running.counted("dead_letters_dropped_total", 2)
        }
    }

    @Test("While one request reads the dead letters, the service asks others to come back") func busyQueue() async throws {
        try await RunningService.run { running in
            // Once the administrator's key is known.
            _ = try await running.client.makeApp()
            try await Self.deadLetter([1], running, headers: ["push-reason": "undecodable"])
            let reading = QueueReading(queue: running.topology.deadQueue, configuration: running.broker, limit: 10)
            try await reading.read(wanting: { _ in true }) { _ in
                let answer = try await running.client.get(Self.path)
                #expect(answer.status == 409)
                #expect(answer.json.text("code") == "dead_letters_busy")
                #expect(answer.json["retryable"]?.boolValue == true)
                return ((), [])
            }
            #expect(try await Self.list(running).number("matched") == 1)
        }
    }
}
