import Broker
import Postgres
import PushModel
import StrictJSON
import TestBroker
import TestSupport
import Testing
import TokenService
import TokenServiceSending

@Suite("Many notifications in one request", .serialized, .timeLimit(.minutes(5)))
struct NotificationBatchTests {
    private static let path = "/v1/apps/shop/notifications/batch"

    /// The body that `APITestClient.send` sends alone.
    private static func notification(_ to: String, more: String = "") -> String {
        #"{"to":\#(to),"payload":{"aps":{"alert":"hello"}}\#(more)}"#
    }

    private static func item(_ notification: String, key: String? = nil) -> String {
        #"{"notification":\#(notification)\#(key.map { #","idempotency_key":"\#($0)""# } ?? "")}"#
    }

    private static func user(_ name: String, key: String? = nil) -> String { item(notification(#"{"user":"\#(name)"}"#), key: key) }

    private static func send(_ items: [String], _ client: APITestClient) async throws -> APITestClient.Answer {
        try await client.post(path, #"{"notifications":[\#(items.joined(separator: ","))]}"#)
    }

    /// One result for each item; their codes, or their states where they were accepted.
    private static func words(_ answer: APITestClient.Answer) -> [String?] {
        (answer.json["results"]?.arrayValue ?? []).map { $0.text("code") ?? $0.text("state") }
    }

    @Test("Each item is answered in its place, a bad one harms no other, and what is accepted is published") func inOrder() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            try await shop.register(installation(1), user: "ada", token: token(1))
            try await shop.register(installation(2), user: "grace", token: token(2))
            let bad = #"{"to":{"user":"ada"},"content":{"badge":-1}}"#
            let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
            try await running.jobs { jobs in
                let items = [
                    Self.user("ada"), Self.item(bad), "17", Self.user("grace"), #"{"notification":{},"colour":1}"#, Self.item("null"),
                    #"{"notification":{},"idempotency_key":7}"#, Self.user("ada", key: ""), Self.user("nobody"),
                ]
                let answer = try await shop.post(
                    Self.path, #"{"notifications":[\#(items.joined(separator: ","))]}"#, headers: ["traceparent": trace])
                #expect(answer.status == 202)
                let invalid = "invalid_request"
                #expect(
                    Self.words(answer) == [
                        "accepted", invalid, invalid, "accepted", invalid, invalid, invalid, "invalid_idempotency_key", "no_targets",
                    ])
                let results = answer.json["results"]?.arrayValue ?? []
                #expect(results.map { $0.number("status") } == [nil, 400, 400, nil, 400, 400, 400, 400, nil])
                // As if it had been sent alone.
                let alone = try await shop.post("/v1/apps/shop/notifications", bad)
                #expect(alone.status == 400 && results[1].written == alone.json.written)
                let pointers = results.map { $0["errors"]?.arrayValue?.compactMap { $0.text("pointer") } ?? [] }
                #expect(pointers[2] == ["/notifications/2"] && pointers[4] == ["/notifications/4/colour"] && pointers[5] == [""])
                #expect(pointers[6] == ["/notifications/6/idempotency_key"])
                #expect(results[0]["replay"] == nil)

                let published = try await jobs.next(2)
                #expect(published.allSatisfy { $0.header("traceparent") == trace })
                let notifications = try published.map { try PushJob(decoding: $0.body).notification.description }
                #expect(Set(notifications) == Set([results[0], results[3]].compactMap { $0.text("id") }))
            }
            #expect(try await running.count("SELECT count(*) FROM notifications") == 3)
        }
    }

    @Test("A payload is passed on byte for byte, wherever it stands in the batch") func verbatim() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            try await shop.register(installation(1), user: "ada", token: token(1))
            let payload = #"{ "aps" : {"alert":"é\u00e9"}, "n": 1.0 }"#
            try await running.jobs { jobs in
                let answer = try await Self.send(
                    [Self.user("nobody"), Self.item(#"{"to":{"user":"ada"},"payload":\#(payload)}"#)], shop)
                #expect(Self.words(answer) == ["no_targets", "accepted"])
                #expect(try PushJob(decoding: try await jobs.next().body).payload == Array(payload.utf8))
            }
        }
    }

    @Test("A thousand items share few transactions, and each is published once") func sharedTransactions() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            try await shop.register(installation(1), user: "ada", token: token(1))
            for statement in Self.noteCommits { try await running.execute(statement) }
            try await running.jobs { jobs in
                let answer = try await Self.send(Array(repeating: Self.user("ada"), count: 1000), shop)
                let ids = (answer.json["results"]?.arrayValue ?? []).compactMap { $0.text("id") }
                #expect(ids.count == 1000 && Set(ids).count == 1000)
                let published = try await jobs.next(1000).map { try PushJob(decoding: $0.body).notification.description }
                #expect(Set(published) == Set(ids))
            }
            // Eight of at most 128; one more where PostgreSQL repeated one.
            #expect(try await running.count("SELECT count(DISTINCT id) FROM commits") <= 16)
        }
    }

    private static let noteCommits: [PostgresQuery] = [
        "CREATE TABLE commits (id xid8)",
        """
        CREATE FUNCTION note_commit() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
            INSERT INTO commits SELECT pg_current_xact_id();
            RETURN NULL;
        END $$
        """,
        "CREATE TRIGGER note_commit AFTER INSERT ON notifications FOR EACH STATEMENT EXECUTE FUNCTION note_commit()",
    ]

    // MARK: Keys

    @Test("A key that was used before is a replay or a mismatch, and so is the second use in one batch") func keys() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            try await shop.register(installation(1), user: "ada", token: token(1))
            let alone = try await shop.send(#"{"user":"ada"}"#, headers: ["idempotency-key": "a"])
            #expect(alone.status == 202)
            let items = [
                Self.user("ada", key: "a"), Self.user("grace", key: "a"), Self.user("ada", key: "b"), Self.user("ada", key: "b"),
                Self.user("grace", key: "b"),
            ]
            let answer = try await Self.send(items, shop)
            let reused = "idempotency_key_reused"
            #expect(Self.words(answer) == ["accepted", reused, "accepted", "accepted", reused])
            let results = answer.json["results"]?.arrayValue ?? []
            #expect(results.map { $0["replay"]?.boolValue } == [true, nil, nil, true, nil])
            #expect(results.map { $0.number("status") } == [nil, 422, nil, nil, 422])
            // The receipt that was answered before, and `replay`.
            #expect(results[0].written == String(alone.json.written.dropLast()) + #","replay":true}"#)
            #expect(results[2].text("id") == results[3].text("id"))
            // What a batch has accepted is a replay for one that is sent alone.
            let later = try await shop.send(#"{"user":"ada"}"#, headers: ["idempotency-key": "b"])
            #expect(later.header("idempotency-replay") == "true" && later.json.text("id") == results[2].text("id"))
            #expect(try await running.count("SELECT count(*) FROM notifications") == 2)
        }
    }

    @Test("The later of two items with one key is the replay, however many stand between them") func farApart() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            try await shop.register(installation(1), user: "ada", token: token(1))
            let between = Array(repeating: Self.user("ada"), count: 400)
            let answer = try await Self.send([Self.user("ada", key: "k")] + between + [Self.user("ada", key: "k")], shop)
            let results = answer.json["results"]?.arrayValue ?? []
            #expect(results.count == 402 && results.allSatisfy { $0.text("state") == "accepted" })
            #expect(results.first?["replay"] == nil && results.last?["replay"]?.boolValue == true)
            #expect(results.first?.text("id") == results.last?.text("id"))
        }
    }

    @Test("A repeat of what is refused now and was accepted then is a replay") func afterItsTime() async throws {
        try await RunningService.run(.init(without: { $0 is Relay })) { running in
            let shop = try await running.client.makeApp()
            let admin = try await running.client.makeKey(app: "shop", scopes: ["send", "admin"])
            let notification = Self.notification(#"{"users":["ada"]}"#, more: #","lane":"now""#)
            let fast = Self.item(notification, key: "fast")
            let first = try await Self.send([fast], admin)
            #expect(Self.words(first) == ["accepted"])
            // The key has lost the scope that the lane needs.
            try await running.execute("UPDATE api_keys SET scopes = '{send}' WHERE 'admin' = ANY (scopes) AND app_id IS NOT NULL")
            let again = try await eventually {
                let answer = try await Self.send([fast, Self.item(notification)], admin)
                return Self.words(answer).last == "lane_not_allowed" ? answer : nil
            }
            let results = again.json["results"]?.arrayValue ?? []
            #expect(results[0]["replay"]?.boolValue == true && results[0].text("id") == first.json["results"]?[0]?.text("id"))
            // With another body, or of another caller, it is none.
            let others = [Self.item(Self.notification(#"{"users":["eve"]}"#, more: #","lane":"now""#), key: "fast")]
            #expect(Self.words(try await Self.send(others, admin)) == ["idempotency_key_reused"])
            #expect(Self.words(try await Self.send(others, shop)) == ["lane_not_allowed"])
        }
    }

    // MARK: Limits

    @Test("What is wrong with the list is one refusal, and accepts nothing") func lists() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            let tooMany = Array(repeating: Self.user("ada"), count: 1001).joined(separator: ",")
            for body in [#"{"notifications":[]}"#, #"{"notifications":[\#(tooMany)]}"#, #"{"notifications":{}}"#] {
                let answer = try await shop.post(Self.path, body)
                #expect(answer.status == 400 && answer.problems == ["/notifications out_of_range"])
            }
            #expect(try await shop.post(Self.path, "{}").problems == ["/notifications missing"])
            let more = try await shop.post(Self.path, #"{"notifications":[\#(Self.user("ada"))],"dry_run":true}"#)
            #expect(more.status == 400 && more.problems == ["/dry_run unknown_field"])
            #expect(try await shop.post(Self.path, #"{"notifications":[{"notification":}]}"#).code == "malformed_json")
            let header = try await shop.post(
                Self.path, #"{"notifications":[\#(Self.user("ada"))]}"#, headers: ["idempotency-key": "k"])
            #expect(header.status == 400 && header.code == "invalid_idempotency_key")
            let huge = try await shop.post(Self.path, #"{"notifications":["\#(String(repeating: "x", count: 4 << 20))"]}"#)
            #expect(huge.status == 413 && huge.code == "body_too_large")
            #expect(try await running.count("SELECT count(*) FROM notifications") == 0)
        }
    }

    @Test("An item may be as large and nest as deep as a notification that is sent alone") func sizes() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            func nested(_ depth: Int) -> String {
                let deep = String(repeating: "[", count: depth) + String(repeating: "]", count: depth)
                return #"{"to":{"user":"ada"},"payload":{"aps":{"alert":"a"},"deep":\#(deep)}}"#
            }
            // With the notification and the payload around it: 32 levels.
            #expect(try await shop.post("/v1/apps/shop/notifications", nested(30)).status == 202)
            #expect(try await shop.post("/v1/apps/shop/notifications", nested(31)).code == "malformed_json")
            #expect(Self.words(try await Self.send([Self.item(nested(30))], shop)) == ["no_targets"])
            #expect(try await Self.send([Self.item(nested(31))], shop).code == "malformed_json")
            let large = #"{"to":{"user":"ada"},"content":{"alert":"\#(String(repeating: "x", count: 1 << 20))"}}"#
            #expect(try await shop.post("/v1/apps/shop/notifications", large).status == 413)
            let answer = try await Self.send([Self.item(large), Self.user("ada")], shop)
            #expect(Self.words(answer) == ["body_too_large", "no_targets"])
            #expect(answer.json["results"]?[0]?.number("status") == 413)
        }
    }

    @Test("Each item counts as a request") func rates() async throws {
        try await RunningService.run { running in
            _ = try await running.client.makeApp()
            let made = try await running.client.post(
                "/v1/admin/keys", #"{"app":"shop","name":"limited","scopes":["send"],"requests_per_second":10}"#)
            let limited = running.client.with(key: made.json.text("key"))
            let sent = try await Self.send(Array(repeating: Self.user("ada"), count: 300), limited)
            #expect(sent.status == 202 && sent.header("RateLimit-Limit") == "10")
            let refused = try await Self.send([Self.user("ada")], limited)
            #expect(refused.status == 429 && refused.code == "rate_limited")
            #expect((refused.header("Retry-After").flatMap { Int($0) } ?? 0) > 1)
        }
    }

    @Test("Who may not send, may not send many; a faster lane is one item's refusal") func scopes() async throws {
        try await RunningService.run { running in
            _ = try await running.client.makeApp()
            let item = Self.item(Self.notification(#"{"users":["ada"]}"#, more: #","lane":"now""#))
            let reader = try await running.client.makeKey(app: "shop", scopes: ["read", "devices"])
            #expect(try await Self.send([item], reader).code == "forbidden")
            #expect(try await Self.send([item], running.client.with(key: nil)).status == 401)
            let sender = try await running.client.makeKey(app: "shop", scopes: ["send"])
            let answer = try await Self.send([item, Self.user("ada")], sender)
            #expect(Self.words(answer) == ["lane_not_allowed", "no_targets"])
            #expect(answer.json["results"]?[0]?.number("status") == 403)
            let admin = try await running.client.makeKey(app: "shop", scopes: ["send", "admin"])
            #expect(Self.words(try await Self.send([item], admin)) == ["accepted"])
        }
    }

    @Test("Where the backlog has room for some, those are accepted and sent later") func backlog() async throws {
        let proxy = try FaultProxy(port: RunningService.port(of: TestBroker.uri()))
        let options = RunningService.Options(settings: ["BACKLOG_LIMIT": "3", "FENCE_TIMEOUT_MS": "100"], brokerPort: proxy.port)
        try await RunningService.run(options) { running in
            let shop = try await running.client.makeApp()
            try await shop.register(installation(1), user: "ada", token: token(1))
            _ = try await eventually { running.service.publisher.state == .ready ? true : nil }
            proxy.set(.refusing)
            proxy.cut()
            _ = try await eventually { running.service.publisher.state == .ready ? nil : true }
            let answer = try await Self.send(Array(repeating: Self.user("ada"), count: 5), shop)
            #expect(answer.status == 202)
            #expect(Self.words(answer) == ["accepted", "accepted", "accepted", "backlog_full", "backlog_full"])
            let refused = answer.json["results"]?[4]
            #expect(refused?.number("status") == 503 && refused?["retryable"]?.boolValue == true)

            proxy.set(.forwarding)
            let ids = (answer.json["results"]?.arrayValue ?? []).compactMap { $0.text("id") }
            try await running.jobs { jobs in
                let published = try await jobs.next(3).map { try PushJob(decoding: $0.body).notification.description }
                #expect(Set(published) == Set(ids))
            }
        }
        proxy.stop()
    }

    @Test("The fourth background push of an hour to a user is warned of, in its own item") func warnings() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            try await shop.register(installation(1), user: "ada", token: token(1))
            func background(_ user: String) -> String { #"{"to":{"user":"\#(user)"},"content":{"content_available":true}}"# }
            for _ in 1...3 { #expect(try await shop.post("/v1/apps/shop/notifications", background("ada")).status == 202) }
            let answer = try await Self.send([Self.item(background("grace")), Self.item(background("ada")), Self.user("ada")], shop)
            let warned = (answer.json["results"]?.arrayValue ?? []).map { result in
                result["warnings"]?.arrayValue?.map { "\($0.text("pointer") ?? "") \($0.text("code") ?? "")" }
            }
            #expect(warned == [[], ["/to frequent_background"], []])
        }
    }
}
