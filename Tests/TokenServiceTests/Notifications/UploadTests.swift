import Broker
import Observability
import Postgres
import PushModel
import StrictJSON
import TestSupport
import Testing
import TokenServiceSending
import TokenServiceUpkeep

@Suite("A long list by upload", .serialized, .timeLimit(.minutes(5)))
struct UploadTests {
    private static let path = "/v1/apps/shop/notifications/upload"
    /// No fan-out goes on but what the test asks for.
    private static let still = RunningService.Options(without: { $0 is Relay || $0 is Housekeeper })

    private static func body(_ to: String, more: String = "") -> String { #"{"to":\#(to),"payload":{"aps":{"alert":"hello"}}\#(more)}"# }

    private static func list(_ key: String, _ elements: [String]) -> String {
        #"{"\#(key)":[\#(elements.map { "\"\($0)\"" }.joined(separator: ","))]}"#
    }

    private static func users(_ count: Int) -> String { list("users", (1...count).map { "u\($0)" }) }

    private static func upload(
        _ to: String, _ client: APITestClient, more: String = "", headers: [String: String] = [:]
    ) async throws -> APITestClient.Answer { try await client.post(path, body(to, more: more), headers: headers) }

    private static func id(of answer: APITestClient.Answer) throws -> PushID {
        try #require(answer.json.text("id").flatMap { PushID($0) }, "\(answer.json)")
    }

    private static func count(_ query: PostgresQuery, _ running: RunningService) async throws -> Int {
        try await running.pool.session { session in try session.execute(query).only()["count"] }
    }

    // MARK: Fan-out

    @Test("A hundred thousand users are fanned out like an audience, and each device that one of them has is met once")
    func manyUsers() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            // Two of them have the last place of a page of fan-out.
            let owners = [1, FanOutStore.entriesOfPage, FanOutStore.entriesOfPage, 100_000]
            for (number, owner) in owners.enumerated() {
                try await shop.register(installation(number + 1), user: "u\(owner)", token: token(number + 1))
            }
            try await shop.register(installation(9), user: "ada", token: token(9))
            let answer = try await Self.upload(Self.users(100_000), shop)
            #expect(answer.status == 202 && answer.json.text("lane") == "bulk" && answer.json["deliveries"] == nil)
            let id = try Self.id(of: answer)
            #expect(answer.header("location") == "/v1/apps/shop/notifications/\(id)")
            #expect(
                try await Self.count("SELECT count(DISTINCT place) AS count FROM targets WHERE notification = \(id)", running) == 100_000)
            let deliveries = try await running.jobs(.bulk) { signal in
                var deliveries: [PushJob.Delivery] = []
                while deliveries.count < owners.count { deliveries += try PushJob(decoding: try await signal.next().body).deliveries }
                try await running.sending(id, shop)
                return deliveries
            }
            #expect(deliveries.map(\.token).sorted { $0.hex < $1.hex } == (1...4).compactMap { DeviceToken(hex: token($0)) })
            #expect(Set(deliveries.map(\.id)).count == owners.count)
            let status = try await shop.status(id.description)
            #expect(status["counts"]?.number("total") == 4)
            let kept: String = try await running.pool.session { session in
                try session.execute("SELECT receipts FROM notifications WHERE id = \(id)").only()["receipts"]
            }
            #expect(kept == "failures")
        }
    }

    @Test("Installations are meant with whom they had at acceptance, also behind the first statement's") func installations() async throws {
        try await RunningService.run(Self.still) { running in
            let shop = try await running.client.makeApp()
            for number in [1, 2, 10_500, 10_501] {
                try await shop.register(installation(number), user: "ada", token: token(number))
            }
            let id = try Self.id(of: try await Self.upload(Self.list("installations", (1...10_501).map { "\(installation($0))" }), shop))
            for number in [2, 10_501] { try await shop.register(installation(number), user: "eve", token: token(number)) }
            try await running.another { other in
                let met = try await other.jobs(.bulk) { signal in
                    var met: [PushID] = []
                    while met.count < 2 { met += try PushJob(decoding: try await signal.next().body).deliveries.map(\.installation) }
                    try await other.sending(id, shop)
                    return met
                }
                #expect(met.sorted() == [installation(1), installation(10_500)])
                #expect(try await shop.status(id.description)["counts"]?.number("total") == 2)
            }
        }
    }

    @Test("A list that an ordinary request takes is the same by upload") func short() async throws {
        try await RunningService.run(Self.still) { running in
            let shop = try await running.client.makeApp()
            let ordinary = try await shop.send(Self.users(1000))
            let uploaded = try await Self.upload(Self.users(1000), shop)
            #expect(ordinary.json.text("lane") == "soon" && uploaded.json.text("lane") == "soon")
            #expect(try await Self.count("SELECT count(*) AS count FROM notifications WHERE receipts = 'all'", running) == 2)
            // By whom it names, not by how often.
            let twice = try await Self.upload(Self.list("users", (0..<2000).map { "u\($0 % 1000)" }), shop)
            #expect(twice.json.text("lane") == "soon")
            // What is slower is free; what is faster is an administrator's.
            #expect(try await Self.upload(Self.users(1001), shop, more: #","lane":"soon""#).code == "lane_not_allowed")
            let stated = try await Self.upload(Self.users(1001), shop, more: #","lane":"bulk","receipts":"all""#)
            #expect(stated.status == 202)
            #expect(try await Self.count("SELECT count(*) AS count FROM notifications WHERE receipts = 'all'", running) == 4)
        }
    }

    // MARK: Acceptance

    @Test("A repeat with the same key answers the same and writes nothing") func idempotency() async throws {
        try await RunningService.run(Self.still) { running in
            let shop = try await running.client.makeApp()
            let key = ["idempotency-key": "prices"]
            let first = try await Self.upload(Self.users(1500), shop, headers: key)
            #expect(first.status == 202)
            let again = try await Self.upload(Self.users(1500), shop, headers: key)
            #expect(again.status == 202 && again.bytes == first.bytes && again.header("idempotency-replay") == "true")
            #expect(try await Self.upload(Self.users(1501), shop, headers: key).code == "idempotency_key_reused")
            #expect(try await Self.count("SELECT count(*) AS count FROM notifications", running) == 1)
            #expect(try await Self.count("SELECT count(*) AS count FROM targets", running) == 1500)
        }
    }

    @Test("It is committed while a batch of ordinary requests cannot be") func ownTransaction() async throws {
        try await RunningService.run(Self.still) { running in
            let shop = try await running.client.makeApp()
            let key = ["idempotency-key": "busy"]
            let first = try await shop.send(#"{"users":["ada"]}"#, headers: key)
            let repeated = try await running.holding("SELECT FROM idempotency_records FOR UPDATE") {
                let waiting: @Sendable () async throws -> Int = {
                    try await Self.count(
                        "SELECT count(*) AS count FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'",
                        running)
                }
                let repeated = Task { try await shop.send(#"{"users":["ada"]}"#, headers: key) }
                _ = try await eventually { try await waiting() == 1 ? true : nil }
                #expect(try await Self.upload(Self.users(1001), shop).status == 202)
                #expect(try await waiting() == 1, "the batch has not ended")
                return repeated
            }
            let answer = try await repeated.value
            #expect(answer.status == 202 && answer.bytes == first.bytes)
        }
    }

    @Test("Every thousand entries count as a request of the key") func rates() async throws {
        try await RunningService.run(Self.still) { running in
            _ = try await running.client.makeApp()
            let made = try await running.client.post(
                "/v1/admin/keys", #"{"app":"shop","name":"limited","scopes":["send"],"requests_per_second":1}"#)
            let limited = running.client.with(key: made.json.text("key"))
            #expect(try await Self.upload(Self.users(40_000), limited).status == 202)
            let refused = try await Self.upload(Self.users(1), limited)
            #expect(refused.status == 429)
            #expect((refused.header("Retry-After").flatMap { Int($0) } ?? 0) > 5, "one a second, and forty were made")
        }
    }

    @Test("Beyond the limit uploads are refused until one ends, and nothing else is") func places() async throws {
        try await RunningService.run(.init(settings: ["HTTP_MAX_CONCURRENT_UPLOADS": "1"], without: Self.still.without)) { running in
            let shop = try await running.client.makeApp()
            let other = try await running.client.makeKey(app: "shop", scopes: ["send"])
            let key = try #require(shop.key)
            let body = Self.body(Self.users(1200))
            try await RawConnection.open(running.client.port) { client in
                await client.send(
                    """
                    POST \(Self.path) HTTP/1.1\r\nHost: test\r\nAuthorization: Bearer \(key)\r\nExpect: 100-continue\r
                    Content-Length: \(body.utf8.count)\r\n\r\n
                    """)
                // The body is being read.
                #expect(await client.read(until: "\r\n\r\n").hasPrefix("HTTP/1.1 100 "))
                #expect(try await Self.upload(Self.users(1), shop).code == "concurrency_limited")
                let refused = try await Self.upload(Self.users(1), other)
                #expect(refused.status == 503 && refused.code == "overloaded" && refused.header("Retry-After") == "1")
                #expect(running.metrics.render().contains(#"push_token_service_http_requests_shed_total{reason="uploads"} 1"#))
                #expect(try await shop.send(Self.users(1)).status == 202)
                client.forget()
                await client.send(body)
                #expect(await client.read(until: "\r\n\r\n").hasPrefix("HTTP/1.1 202 "))
            }
            _ = try await eventually { try await Self.upload(Self.users(1), shop).status == 202 ? true : nil }
        }
    }

    // MARK: Refusals

    @Test("Only users and installations, and not too many; the ordinary request names the upload") func refusals() async throws {
        try await RunningService.run(Self.still) { running in
            let shop = try await running.client.makeApp()
            #expect(try await Self.upload(Self.users(100_001), shop).problems == ["/to/users too_many"])
            let all = Self.list("installations", (1...100_001).map { "\(installation($0))" })
            #expect(try await Self.upload(all, shop).problems == ["/to/installations too_many"])
            for to in [
                #"{"tags":"a"}"#, #"{"all":true}"#, Self.list("tokens", [token(1)]), #"{"user":"ada"}"#,
                #"{"installation":"\#(installation(1))"}"#,
            ] {
                let refused = try await Self.upload(to, shop)
                #expect(refused.status == 400 && refused.problems == ["/to not_allowed"], "\(to)")
            }
            #expect(try await Self.upload("{}", shop).problems == ["/to ambiguous_target"])
            #expect(try await Self.upload(#"{"users":[]}"#, shop).problems == ["/to/users too_few"])
            let ordinary = try await shop.send(Self.users(1001))
            #expect(ordinary.problems == ["/to/users too_many"])
            #expect(ordinary.json["errors"]?[0]?.text("detail")?.contains("notifications/upload takes 100000") == true)
            #expect(try await Self.count("SELECT count(*) AS count FROM notifications", running) == 0)
        }
    }

    @Test("A body is as large as it may be, and no larger; tiny values do not fill the memory") func size() async throws {
        try await RunningService.run(Self.still) { running in
            let shop = try await running.client.makeApp()
            let longest = Self.body(Self.list("users", (100_000..<200_000).map { String(repeating: "u", count: 250) + "\($0)" }))
            let largest = longest + String(repeating: " ", count: (32 << 20) - longest.utf8.count)
            #expect(try await shop.post(Self.path, largest).status == 202)
            let refused = try await shop.post(Self.path, largest + " ")
            #expect(refused.status == 413 && refused.code == "body_too_large")
            let tiny = try await shop.post(Self.path, Self.body(#"{"users":[\#(String(repeating: "0,", count: 700_000))0]}"#))
            #expect(tiny.status == 400 && tiny.code == "malformed_json")
        }
    }

    // MARK: Erasure

    @Test("Who is erased leaves the list, and the others stay") func erasure() async throws {
        try await RunningService.run(Self.still) { running in
            let shop = try await running.client.makeApp()
            try await shop.register(installation(1), user: "u7", token: token(1))
            _ = try await Self.upload(Self.users(12_000), shop)
            _ = try await Self.upload(Self.list("installations", (1...1500).map { "\(installation($0))" }), shop)
            let erased = try await running.client.erase("u7")
            #expect(erased.status == 200)
            #expect(try await Self.count("SELECT count(*) AS count FROM targets WHERE owner = 'u7'", running) == 0)
            let id = installation(1)
            #expect(try await Self.count("SELECT count(*) AS count FROM targets WHERE installation = \(id)", running) == 0)
            #expect(try await Self.count("SELECT count(*) AS count FROM targets", running) == 11_999 + 1499)
        }
    }
}
