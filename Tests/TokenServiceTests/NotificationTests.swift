import Broker
import Postgres
import PushModel
import StrictJSON
import TestDatabase
import TestSupport
import Testing

@testable import TokenServiceSending

@Suite("Accepting and publishing notifications", .serialized, .timeLimit(.minutes(5)))
struct NotificationTests {
    @Test("Every token of a user gets a delivery, all in one job") func oneJob() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            try await shop.register(installation(1), user: "ada", token: token(1))
            try await shop.register(installation(2), user: "ada", token: token(2), environment: "sandbox")
            try await shop.register(installation(3), user: "grace", token: token(3))
            let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
            try await running.jobs { signal in
                let payload = #"{ "aps" : {"alert":"é\u00e9"}, "n": 1.0 }"#
                let answer = try await shop.post(
                    "/v1/apps/shop/notifications",
                    #"{"to":{"user":"ada"},"payload":\#(payload),"collapse_id":"c","ttl_seconds":60,"on_unknown":"drop","priority":5}"#,
                    headers: ["traceparent": trace])
                #expect(answer.status == 202)
                #expect(answer.json.number("deliveries") == 2)
                #expect(answer.json.text("state") == "accepted")
                let id = try #require(answer.json.text("id"))
                #expect(answer.header("location") == "/v1/apps/shop/notifications/\(id)")
                let message = try await signal.next()
                #expect(message.header("traceparent") == trace && message.header(PushJob.appHeader) == "shop")
                let job = try PushJob(decoding: message.body)
                #expect(job.payload == Array(payload.utf8))
                #expect(job.notification.description == id)
                #expect(job.topic == "com.example.shop")
                #expect(job.collapseID == "c" && job.priority == 5 && job.onUnknown == .drop && job.attempt == 0)
                #expect(job.expiresAt == job.acceptedAt + 60_000)
                #expect(job.deliveries.map(\.token.hex) == [token(1), token(2)])
                #expect(job.deliveries.map(\.environment) == [.production, .sandbox])
                #expect(Set(job.deliveries.map(\.id)).count == 2)
                #expect(try await shop.status(id).text("state") == "sending")
            }
        }
    }

    /// Outcomes are applied while it is read: after its row, before its receipts.
    @Test("A notification's state and counters are of one moment") func oneMoment() async throws {
        try await RunningService.run(.init(without: { $0 is Relay })) { running in
            let shop = try await running.client.makeApp()
            for number in 1...2 { try await shop.register(installation(number), user: "ada", token: token(number)) }
            let id = try #require(try await shop.send(#"{"user":"ada"}"#).json.text("id").flatMap { PushID($0) })
            try await running.sending(id, shop)
            let locked = Signal<Void>()
            async let applied: Void = running.pool.transaction { session in
                try session.execute("LOCK TABLE receipts IN ACCESS EXCLUSIVE MODE")
                locked.send(())
                try session.execute(
                    """
                    DO $$ BEGIN
                        LOOP
                            EXIT WHEN EXISTS (
                                SELECT FROM pg_locks WHERE NOT granted AND relation = 'receipts'::regclass
                                    AND database = (SELECT oid FROM pg_database WHERE datname = current_database()));
                            PERFORM pg_sleep(0.05);
                        END LOOP;
                    END $$
                    """)
                try session.execute(
                    """
                    INSERT INTO receipts (notification, number, position, token_id, installation, owner_epoch, environment, class, status,
                        updated_at)
                    SELECT notification, number, position, token_id, installation, owner_epoch, environment, 'accepted', 200, now()
                    FROM deliveries
                    """)
                try session.execute("UPDATE jobs SET ended = rpad('11', 100, '0')::bit(100)")
                try session.execute(
                    """
                    UPDATE notifications SET pending = 0, outcomes = ARRAY[ROW('accepted', 200, NULL, 2)::outcome_count],
                        state = 'completed',
                        completed_at = now()
                    """)
            }
            _ = try await locked.next()
            let shown = try await shop.status(id.description)
            try await applied
            #expect(shown.text("state") == "sending" && shown["completed_at"] == nil)
            #expect(shown["counts"]?.number("pending") == 2 && shown["counts"]?.number("accepted") == 0)
            #expect(shown["deliveries"]?.arrayValue?.map { $0.text("state") } == ["pending", "pending"])
            #expect(try await shop.status(id.description)["counts"]?.number("accepted") == 2)
        }
    }

    @Test("The service splits a large audience into jobs") func splitAudience() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            try await withThrowingTaskGroup(of: Void.self) { group in
                for number in 1...101 { group.addTask { try await shop.register(installation(number), user: "ada", token: token(number)) } }
                try await group.waitForAll()
            }
            try await running.jobs(.bulk) { signal in
                _ = try await shop.send(#"{"user":"ada"}"#, more: #","lane":"bulk""#)
                let jobs = try await signal.next(2).map { try PushJob(decoding: $0.body) }
                #expect(jobs.map(\.deliveries.count).sorted() == [1, 100])
                #expect(Set(jobs.flatMap(\.deliveries).map(\.id)).count == 101)
            }
        }
    }

    @Test("An acceptance for a user with 250 devices makes three jobs, and a delivery's id is its place in them")
    func threeJobs() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            try await running.fill(user: "ada", count: 250)
            let (id, messages) = try await running.jobs { signal in
                let sent = try await shop.send(#"{"user":"ada"}"#)
                #expect(sent.json.number("deliveries") == 250)
                let id = try #require(sent.json.text("id").flatMap { PushID($0) })
                return (id, try await signal.next(3).map { try PushJob(decoding: $0.body) })
            }
            let (ids, tokens, members): ([Int64], [[UInt8]], [[Int64]]) = try await running.pool.session { session in
                let tokens = try session.execute("SELECT id, token FROM tokens ORDER BY id")
                let jobs = try session.execute("SELECT members FROM jobs WHERE notification = \(id) ORDER BY number")
                return (
                    try tokens.column("id"), try tokens.column("token"),
                    try jobs.map { row in Job.members(of: try row["members"]) }
                )
            }
            #expect(members.map(\.count) == [100, 100, 50])
            #expect(members.flatMap(\.self) == ids)
            let names = DeliveryNames(id)
            let places = Dictionary(uniqueKeysWithValues: zip(tokens, 0...))
            let deliveries = messages.flatMap(\.deliveries)
            for delivery in deliveries {
                let place = try #require(places[delivery.token.bytes])
                #expect(delivery.id == names.id(job: place / 100, position: place % 100))
            }
            #expect(Set(deliveries.map(\.token)).count == 250)
            #expect(messages.map(\.deliveries.count).sorted() == [50, 100, 100])
            let complete: PostgresQuery = """
                SELECT count(*) FROM notification_records WHERE jobs = 3 AND total = 250 AND pending = 250 AND NOT is_fanned_out
                """
            #expect(try await running.count(complete) == 1)
        }
    }

    @Test("The answer says at once that there is no device to send to") func noDevice() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            let answer = try await shop.send(#"{"installation":"\#(installation(5))"}"#)
            #expect(answer.status == 202)
            #expect(answer.json.text("state") == "no_targets")
            let status = try await shop.status(try #require(answer.json.text("id")))
            #expect(status.text("state") == "no_targets")
            #expect(status["counts"]?.number("total") == 0)
        }
    }

    @Test("64 clients with one idempotency key make one notification") func sixtyFourClientsWithOneKeyMakeOneNotification() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            try await shop.register(installation(1), user: "ada", token: token(1))
            let answers = try await withThrowingTaskGroup(of: APITestClient.Answer.self) { group in
                for _ in 1...64 {
                    group.addTask {
                        // 503 is what a client retries: here, a lock that was waited for too long.
                        try await eventually {
                            let answer = try await shop.send(#"{"user":"ada"}"#, headers: ["idempotency-key": "order-1"])
                            return answer.status == 503 ? nil : answer
                        }
                    }
                }
                return try await group.reduce(into: []) { $0.append($1) }
            }
            #expect(answers.allSatisfy { $0.status == 202 })
            #expect(Set(answers.map(\.bytes)).count == 1)
            #expect(answers.filter { $0.header("idempotency-replay") == nil }.count == 1)
            #expect(try await running.count("SELECT count(*) FROM notifications") == 1)
            #expect(try await running.count("SELECT count(*) FROM deliveries") == 1)
        }
    }

    @Test("An idempotency key is for one body and one caller") func aKeyIsForOneBodyAndOneCaller() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            try await shop.register(installation(1), user: "ada", token: token(1))
            let first = try await shop.send(#"{"user":"ada"}"#, headers: ["idempotency-key": "k"])
            let other = try await shop.send(#"{"user":"grace"}"#, headers: ["idempotency-key": "k"])
            #expect(other.status == 422)
            #expect(other.code == "idempotency_key_reused")
            let colleague = try await running.client.makeKey(app: "shop", scopes: ["send"])
            let second = try await colleague.send(#"{"user":"ada"}"#, headers: ["idempotency-key": "k"])
            #expect(second.status == 202)
            #expect(second.json.text("id") != first.json.text("id"))
            // After two days the key is as good as new.
            _ = try await running.count(
                "WITH old AS (UPDATE idempotency_records SET day = day - interval '48 hours' RETURNING 1) SELECT count(*) FROM old")
            let later = try await shop.send(#"{"user":"grace"}"#, headers: ["idempotency-key": "k"])
            #expect(later.status == 202)
            #expect(later.header("idempotency-replay") == nil)
        }
    }

    /// By another process, which stands still before its commit.
    @Test("The answer says that an idempotency key has been in use for long") func busyKey() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            func send(_ key: String) async throws -> APITestClient.Answer {
                try await shop.send(#"{"user":"ada"}"#, headers: ["idempotency-key": key])
            }
            #expect(try await send("done").status == 202)
            let claimed = Signal<Void>()
            async let elsewhere: Void = running.pool.transaction { session in
                try session.execute("SELECT pg_advisory_xact_lock(idempotency_lock(app_id, api_key_id, 'busy')) FROM idempotency_records")
                try session.execute(
                    """
                    INSERT INTO idempotency_records (app_id, api_key_id, key, day, fingerprint, notification, warnings)
                    SELECT app_id, api_key_id, 'busy', day, fingerprint, notification, warnings FROM idempotency_records
                    """)
                claimed.send(())
                while try session.count("SELECT count(*) FROM notifications") < 2 {
                    try session.execute("SELECT pg_sleep(0.05)")
                }
            }
            _ = try await claimed.next()
            let busy = try await send("busy")
            #expect(busy.status == 409 && busy.code == "idempotency_in_progress")
            #expect(busy.header("retry-after") == "1" && busy.json["retryable"]?.boolValue == true)
            #expect(try await send("another").status == 202)
            try await elsewhere
            let replayed = try await send("busy")
            #expect(replayed.status == 202 && replayed.header("idempotency-replay") == "true")
        }
    }

    /// The other process commits when it sees the stranger's notification, and gives up after 20 s.
    @Test("A request whose idempotency key is in use keeps no other request of its batch waiting") func strangersOfBusyKey() async throws {
        try await RunningService.run(.init(database: { $0.lockTimeout = .seconds(60) })) { running in
            let shop = try await running.client.makeApp()
            #expect(try await shop.send(#"{"user":"ada"}"#, headers: ["idempotency-key": "done"]).status == 202)
            let claimed = Signal<Void>()
            async let cameInTime: Bool = running.pool.transaction { session in
                try session.execute("SELECT pg_advisory_xact_lock(idempotency_lock(app_id, api_key_id, 'busy')) FROM idempotency_records")
                try session.execute(
                    """
                    INSERT INTO idempotency_records (app_id, api_key_id, key, day, fingerprint, notification, warnings)
                    SELECT app_id, api_key_id, 'busy', day, fingerprint, notification, warnings FROM idempotency_records
                    """)
                claimed.send(())
                for _ in 0..<400 {
                    if try session.count("SELECT count(*) FROM notifications") == 3 { return true }
                    try session.execute("SELECT pg_sleep(0.05)")
                }
                return false
            }
            _ = try await claimed.next()
            let item = #"{"to":{"user":"ada"},"payload":{"aps":{"alert":"hello"}}}"#
            let items = ["a", "busy", "c"].map { #"{"idempotency_key":"\#($0)","notification":\#(item)}"# }
            let answer = try await shop.post(
                "/v1/apps/shop/notifications/batch", #"{"notifications":[\#(items.joined(separator: ","))]}"#)
            #expect(answer.status == 202)
            #expect(try await cameInTime)
            #expect(try await running.count("SELECT count(*) FROM notifications") == 3)
        }
    }

    @Test("Another process publishes a job that a dead process left behind") func whatADeadProcessLeftIsPublishedByAnother() async throws {
        // This process commits and dies: nothing in it ever publishes.
        try await RunningService.run(.init(settings: ["FENCE_TIMEOUT_MS": "100"], without: { $0 is Publisher || $0 is Relay })) { dying in
            let shop = try await dying.client.makeApp()
            try await shop.register(installation(1), user: "ada", token: token(1))
            try await shop.register(installation(2), user: "ada", token: token(2))
            let sent = try await shop.send(#"{"user":"ada"}"#)
            #expect(sent.status == 202)
            // The owner of one device changes meanwhile; its fence is pending, and what is resolved anew leaves it out.
            let out = try await shop.post("/v1/apps/shop/installations/\(installation(2))/logout")
            #expect(out.json.text("fence") == "pending")
            try await dying.another { living in
                try await living.jobs { signal in
                    let job = try PushJob(decoding: try await signal.next().body)
                    #expect(job.notification.description == sent.json.text("id"))
                    #expect(job.deliveries.map(\.token.hex) == [token(1)])
                }
                let status = try await eventually { () -> JSONValue? in
                    let status = try await living.client.with(key: shop.key).status(try #require(sent.json.text("id")))
                    return status["counts"]?.number("fenced") == 1 ? status : nil
                }
                #expect(status["counts"]?.number("pending") == 1)
                _ = try await eventually { try await living.fences().isEmpty ? nil : true }
            }
        }
    }

    @Test("The relay takes a job over when its lease has run out") func aLeaseThatRanOutIsTakenOver() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            try await shop.register(installation(1), user: "ada", token: token(1))
            try await running.jobs { signal in
                let sent = try await shop.send(#"{"user":"ada"}"#)
                let first = try PushJob(decoding: try await signal.next().body)
                try await running.allPublished()
                // As if the process had died between the confirm and its note of it.
                try await running.forgetPublishing()
                let second = try PushJob(decoding: try await signal.next().body)
                #expect(second.deliveries == first.deliveries)
                #expect(second.notification.description == sent.json.text("id"))
            }
        }
    }

    @Test("The service does not send a job that expired before it was published")
    func whatExpiredBeforeItWasPublishedIsNotSent() async throws {
        try await RunningService.run(.init(settings: ["FENCE_TIMEOUT_MS": "100"], without: { $0 is Publisher || $0 is Relay })) { dying in
            let shop = try await dying.client.makeApp()
            try await shop.register(installation(1), user: "ada", token: token(1))
            let sent = try await shop.send(#"{"user":"ada"}"#)
            _ = try await dying.count(
                "WITH u AS (UPDATE notifications SET expires_at = now() RETURNING 1) SELECT count(*) FROM u")
            try await dying.another { living in
                let status = try await eventually { () -> JSONValue? in
                    let status = try await living.client.with(key: shop.key).status(try #require(sent.json.text("id")))
                    return status.text("state") == "expired" ? status : nil
                }
                #expect(status["counts"]?.number("expired") == 1)
            }
        }
    }
}
