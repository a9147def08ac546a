import Configuration
import Observability
import Postgres
import PushModel
import StrictJSON
import TestSupport
import Testing

@testable import TokenService
@testable import TokenServiceAPI
@testable import TokenServiceApps
@testable import TokenServiceKit

@Suite("No client takes more than its share", .serialized, .timeLimit(.minutes(5)))
struct LimitTests {
    private static let path = "/v1/apps/shop/users/ada/installations"

    private static func makeKey(_ running: RunningService, rate: Int) async throws -> APITestClient {
        let made = try await running.client.post(
            "/v1/admin/keys", #"{"app":"shop","name":"limited","scopes":["read"],"requests_per_second":\#(rate)}"#)
        #expect(made.status == 201 && made.json.number("requests_per_second") == Int64(rate))
        return running.client.with(key: made.json.text("key"))
    }

    private static func burst(_ client: APITestClient, _ number: Int, _ path: String = path) async throws -> [APITestClient.Answer] {
        try await withThrowingTaskGroup(of: APITestClient.Answer.self) { group in
            for _ in 0..<number { group.addTask { try await client.get(path) } }
            return try await group.reduce(into: []) { $0.append($1) }
        }
    }

    @Test("The service refuses a key above its rate and says when to come back") func exceededRate() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            let limited = try await Self.makeKey(running, rate: 1)
            let answers = try await Self.burst(limited, 16)
            #expect(answers.allSatisfy { $0.header("RateLimit-Limit") == "1" && $0.header("RateLimit-Remaining") == "0" })
            #expect(answers.contains { $0.status == 200 })
            let refused = try #require(answers.first { $0.status == 429 })
            #expect(refused.code == "rate_limited" && refused.json["retryable"]?.boolValue == true)
            #expect(refused.header("Retry-After") == "1" && refused.header("RateLimit-Reset") == "1")
            #expect(running.metrics.render().contains("push_token_service_http_requests_rate_limited_total"))
            #expect(try await Self.burst(shop, 16).allSatisfy { $0.status == 200 }, "another key pays for it")
            let next = try await eventually {
                let answer = try await limited.get(Self.path)
                return answer.status == 429 ? nil : answer
            }
            #expect(next.status == 200)
        }
    }

    @Test("Every answer to a limited key says how many requests are left") func remainingRequests() async throws {
        try await RunningService.run { running in
            _ = try await running.client.makeApp()
            let limited = try await Self.makeKey(running, rate: 1000)
            for (method, path, status) in [
                ("GET", Self.path, 200), ("GET", Self.path + "?limit=0", 400), ("GET", "/v1/apps/nothing/users/a/installations", 404),
                ("POST", "/v1/apps/shop/notifications", 403),
            ] {
                let answer = try await limited.call(method, path)
                #expect(answer.status == status)
                #expect(answer.header("RateLimit-Limit") == "1000" && answer.header("RateLimit-Reset") == "1")
                #expect((answer.header("RateLimit-Remaining").flatMap { Int($0) } ?? -1) >= 990)
            }
            #expect(try await limited.with(key: nil).get(Self.path).header("RateLimit-Limit") == nil)
        }
    }

    @Test("The setting holds for keys without a rate of their own") func rateSetting() async throws {
        let options = RunningService.Options(settings: ["HTTP_REQUESTS_PER_SECOND_PER_KEY": "50"])
        try await RunningService.run(options) { running in
            let shop = try await running.client.makeApp()
            #expect(try await shop.get(Self.path).header("RateLimit-Limit") == "50")
            #expect(try await Self.makeKey(running, rate: 70).get(Self.path).header("RateLimit-Limit") == "70")
        }
        try await RunningService.run(RunningService.Options(settings: ["HTTP_REQUESTS_PER_SECOND_PER_KEY": "0"])) { running in
            let shop = try await running.client.makeApp()
            #expect(try await shop.get(Self.path).header("RateLimit-Limit") == nil)
            #expect(try await Self.makeKey(running, rate: 70).get(Self.path).header("RateLimit-Limit") == "70")
        }
    }

    private static let oneRequest = ["HTTP_MAX_CONCURRENT_REQUESTS": "1", "HTTP_MAX_CONCURRENT_REQUESTS_PER_APP": "10"]

    @Test("The service refuses requests beyond its limit at once, but not the operator's") func concurrentRequests() async throws {
        try await RunningService.run(RunningService.Options(settings: Self.oneRequest)) { running in
            let shop = try await running.client.makeApp()
            let other = try await running.client.makeKey(app: "shop", scopes: ["read"])
            let slow = try await running.holding("LOCK TABLE installations IN ACCESS EXCLUSIVE MODE") {
                let slow = Task { try await shop.get(Self.path) }
                try await running.counted("http_requests_in_progress", 1)
                for _ in 0..<3 {
                    let refused = try await other.get(Self.path)
                    #expect(refused.status == 503 && refused.code == "overloaded" && refused.header("Retry-After") == "1")
                    #expect(refused.json["retryable"]?.boolValue == true)
                }
                for path in ["/healthz", "/readyz", "/metrics"] { #expect(try await other.get(path).status == 200) }
                return slow
            }
            #expect(try await slow.value.status == 200)
            #expect(try await other.get(Self.path).status == 200)
            #expect(running.metrics.render().contains(#"push_token_service_http_requests_shed_total{reason="requests"} 3"#))
        }
    }

    @Test("Requests that come together over one connection are refused by their heads in order, and the connection goes on")
    func pipelinedRefusals() async throws {
        try await RunningService.run(RunningService.Options(settings: Self.oneRequest)) { running in
            let shop = try await running.client.makeApp()
            let other = try await running.client.makeKey(app: "shop", scopes: ["read", "devices"])
            // From now on the service remembers the key.
            #expect(try await other.get(Self.path).status == 200)
            let key = try #require(other.key)
            let fields = "Host: t\r\nAuthorization: Bearer \(key)\r\n"
            let slow = try await running.holding("LOCK TABLE installations IN ACCESS EXCLUSIVE MODE") {
                let slow = Task { try await shop.get(Self.path) }
                try await running.counted("http_requests_in_progress", 1)
                let statuses = try await RawConnection.open(running.client.port) { connection in
                    await connection.send(
                        "GET \(Self.path) HTTP/1.1\r\n\(fields)\r\n"
                            + "PUT /v1/apps/shop/installations/1 HTTP/1.1\r\n\(fields)Content-Length: 2\r\n\r\n{}"
                            + "GET /healthz HTTP/1.1\r\nHost: t\r\n\r\n")
                    _ = await connection.read(until: "HTTP/1.1 200")
                    return connection.statuses
                }
                #expect(statuses == [503, 503, 200])
                return slow
            }
            #expect(try await slow.value.status == 200)
            for method in ["GET", "PUT"] {
                #expect(running.counter(#"http_requests_total{method="\#(method)",route="none",status="503"}"#) == 1)
            }
            #expect(running.counter(#"http_requests_shed_total{reason="requests"}"#) == 2)
        }
    }

    @Test("A request that reaches no handler gives its place back") func requestWithoutRoute() async throws {
        try await RunningService.run(RunningService.Options(settings: Self.oneRequest)) { running in
            let shop = try await running.client.makeApp()
            for _ in 1...3 {
                #expect(try await shop.get(Self.path).status == 200)
                #expect(try await shop.get("/v1/nothing").status == 404)
            }
            try await running.counted("http_requests_in_progress", 0)
        }
    }

    /// An answer of six megabytes is more than Linux buffers (4 MiB at most, `net.ipv4.tcp_wmem`) for a client that takes 64 KiB.
    @Test("A large answer keeps its request's place until the client has taken it") func untakenAnswer() async throws {
        try await RunningService.run(RunningService.Options(settings: Self.oneRequest)) { running in
            let shop = try await running.client.makeApp()
            try await running.execute(
                """
                INSERT INTO api_keys (id, secret_sha256, name, scopes)
                SELECT lpad(to_hex(n), 16, '0'), sha256(n::text::bytea), repeat('x', 100), '{read}' FROM generate_series(1, 30000) n
                """)
            let key = try #require(running.client.key)
            let (during, answer) = try await RawConnection.open(running.client.port, receiveBuffer: 65536) { connection in
                await connection.send("GET /v1/admin/keys HTTP/1.1\r\nHost: t\r\nAuthorization: Bearer \(key)\r\nConnection: close\r\n\r\n")
                // The handler has returned.
                _ = await connection.read(until: "\r\n\r\n")
                return (try await shop.get(Self.path).status, await connection.readToEnd())
            }
            #expect(during == 503)
            #expect(answer.hasPrefix("HTTP/1.1 200 ") && answer.utf8.count > 6_000_000)
            try await running.counted("http_requests_in_progress", 0)
            #expect(try await shop.get(Self.path).status == 200)
        }
    }

    @Test("Requests of two keys that come together over one connection are each their own key's") func twoKeysOfConnection() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            let reader = try await running.client.makeKey(app: "shop", scopes: ["read"])
            for key in [shop, reader] { #expect(try await key.get(Self.path).status == 200) }
            let statuses = try await RawConnection.open(running.client.port) { connection in
                for client in [shop, reader, shop, reader] {
                    await connection.send(
                        "POST /v1/apps/shop/installations/\(installation(1))/logout HTTP/1.1\r\nHost: t\r\n"
                            + "Authorization: Bearer \(client.key ?? "")\r\nContent-Length: 0\r\n\r\n")
                }
                await connection.send("GET /healthz HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n")
                _ = await connection.readToEnd()
                return connection.statuses
            }
            #expect(statuses.count == 5 && statuses[1] == 403 && statuses[3] == 403)
            #expect(statuses[0] == statuses[2] && statuses[0] != 403)
        }
    }

    /// Requests whose bodies begin and do not go on.
    ///
    /// - Parameters:
    ///   - count: How many; the service refuses `refused` of them.
    ///   - path: To which they put.
    ///   - body: Runs while the others wait for the rest of their bodies.
    private static func withSlowBodies(
        _ count: Int, refused: Int, _ client: APITestClient, _ path: String, _ running: RunningService,
        _ body: @escaping @Sendable () async throws -> Void
    ) async throws {
        try await withSlowBodies(Array(repeating: (client: client, path: path), count: count), refused: refused, running, body)
    }

    private static func withSlowBodies(
        _ requests: [(client: APITestClient, path: String)], refused: Int, _ running: RunningService,
        _ body: @escaping @Sendable () async throws -> Void
    ) async throws {
        try await withThrowingTaskGroup(of: String.self) { group in
            for (client, path) in requests {
                let key = try #require(client.key)
                group.addTask {
                    try await RawConnection.open(running.client.port) { connection in
                        await connection.send(
                            "PUT \(path) HTTP/1.1\r\nHost: t\r\nAuthorization: Bearer \(key)\r\nContent-Length: 60000\r\n\r\n{")
                        return await connection.read(until: "}")
                    }
                }
            }
            for _ in 0..<refused {
                let answer = try await group.next() ?? ""
                #expect(answer.hasPrefix("HTTP/1.1 429 ") && answer.contains("concurrency_limited") && answer.contains("Retry-After: 1"))
            }
            try await running.counted("http_requests_reading", requests.count - refused)
            try await body()
            group.cancelAll()
            for try await _ in group {}
        }
        try await running.counted("http_requests_reading", 0)
    }

    @Test("However many slow bodies one key sends, the other keys get their answers") func slowBodies() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            let other = try await running.client.makeKey(app: "shop", scopes: ["devices", "read"])
            let path = "/v1/apps/shop/installations/"
            try await Self.withSlowBodies(520, refused: 470, shop, path + "\(installation(1))", running) {
                let refused = try await shop.get(Self.path)
                #expect(refused.status == 429 && refused.code == "concurrency_limited" && refused.header("Retry-After") == "1")
                #expect(refused.json["retryable"]?.boolValue == true)
                #expect(running.counter(#"http_requests_rate_limited_total{limit="requests"}"#) == 471)
                try await running.counted("http_requests_in_progress", 0)
                #expect(try await other.get(Self.path).status == 200)
                let body = #"{"user":"ada","tokens":[{"token":"\#(token(2))"}]}"#
                #expect(try await other.put(path + "\(installation(2))", body).status == 201)
            }
            #expect(try await shop.get(Self.path).status == 200)
        }
    }

    @Test("A device has three requests at once, whatever other devices have") func slowDevice() async throws {
        try await RunningService.withDevices { running, shop in
            let path = "/v1/apps/shop/installations/"
            let (slow, other) = (try await shop.device(user: "ada"), try await shop.device(user: "eve", id: installation(2)))
            try await Self.withSlowBodies(5, refused: 2, slow, path + "\(installation(1))", running) {
                let refused = try await slow.post(path + "\(installation(1))/logout")
                #expect(refused.status == 429 && refused.code == "concurrency_limited")
                let served = try await other.put(path + "\(installation(2))", #"{"user":"eve","tokens":[]}"#)
                #expect(served.status == 201)
            }
        }
    }

    /// A key makes credentials for any number of installations.
    @Test("However many devices of one app send slow bodies, other apps and the keys of no app get their answers") func slowApp()
        async throws
    {
        try await RunningService.withDevices(["HTTP_MAX_CONCURRENT_REQUESTS_PER_APP": "6"]) { running, shop in
            let other = try await running.client.makeApp("other")
            let general = try await running.client.makeKey(app: nil, scopes: ["read"])
            var slow: [(client: APITestClient, path: String)] = []
            for number in 1...8 {
                let device = try await shop.device(user: "ada", id: installation(number))
                slow.append((device, "/v1/apps/shop/installations/\(installation(number))"))
            }
            try await Self.withSlowBodies(slow, refused: 2, running) {
                let refused = try await shop.get(Self.path)
                #expect(refused.status == 429 && refused.code == "concurrency_limited" && refused.header("Retry-After") == "1")
                #expect(try await other.get("/v1/apps/other/users/ada/installations").status == 200)
                #expect(try await general.get(Self.path).status == 200)
                #expect(running.counter(#"http_requests_rate_limited_total{limit="requests"}"#) == 3)
            }
            #expect(try await shop.get(Self.path).status == 200)
        }
    }

    private static func batch(_ app: String) -> String { "/v1/apps/\(app)/notifications/batch" }

    @Test("Large bodies share a number of bytes, of which one key or app has half; small ones need none of it")
    func largeBodies() async throws {
        try await RunningService.run(RunningService.Options(settings: ["HTTP_MAX_BODY_MIB": "8"])) { running in
            let shop = try await running.client.makeApp()
            let (second, third) = (try await running.client.makeApp("other"), try await running.client.makeApp("third"))
            let neighbour = try await running.client.makeKey(app: "shop", scopes: ["send"])
            let large = String(repeating: " ", count: 65_536) + "{}"
            let holders = [(shop, Self.batch("shop")), (second, Self.batch("other"))]
            try await withThrowingTaskGroup(of: Int.self) { group in
                for (number, (client, path)) in holders.enumerated() {
                    let key = try #require(client.key)
                    group.addTask {
                        try await RawConnection.open(running.client.port) { connection in
                            await connection.send(
                                "POST \(path) HTTP/1.1\r\nHost: t\r\nAuthorization: Bearer \(key)\r\nContent-Length: 4194304\r\n\r\n{")
                            return await connection.read(until: "}").count
                        }
                    }
                    try await running.counted("http_requests_reading", number + 1)
                    if number == 0 { #expect(try await neighbour.post(path, large).code == "concurrency_limited") }
                }
                let refused = try await third.post(Self.batch("third"), large)
                #expect(refused.status == 503 && refused.code == "overloaded")
                #expect(try await shop.post(Self.batch("shop"), large).code == "concurrency_limited")
                // A body that is refused for its contents has been read.
                #expect(try await third.post(Self.batch("third"), "{}").status == 400)
                #expect(running.counter(#"http_requests_shed_total{reason="bodies"}"#) == 1)
                #expect(running.counter(#"http_requests_rate_limited_total{limit="bodies"}"#) == 2)
                group.cancelAll()
                for try await _ in group {}
            }
            _ = try await eventually { try await third.post(Self.batch("third"), large).status == 400 ? true : nil }
        }
    }

    @Test("A body of no stated length counts as a large one from its 65,537th byte on") func chunkedBodies() async throws {
        try await RunningService.run(RunningService.Options(settings: ["HTTP_MAX_BODY_MIB": "8"])) { running in
            let shop = try await running.client.makeApp()
            let (key, path) = (try #require(shop.key), Self.batch("shop"))
            let large = String(repeating: " ", count: 65_536) + "{}"
            try await withThrowingTaskGroup(of: Int.self) { group in
                // One app's room is that of one batch.
                for (number, bytes) in [1, 1, 1, 1, 1, 70_000].enumerated() {
                    if number == 5 { #expect(try await shop.post(path, large).code == "invalid_request") }
                    group.addTask {
                        try await RawConnection.open(running.client.port) { connection in
                            await connection.send(
                                "POST \(path) HTTP/1.1\r\nHost: t\r\nAuthorization: Bearer \(key)\r\nTransfer-Encoding: chunked\r\n\r\n"
                                    + "\(String(bytes, radix: 16))\r\n\(String(repeating: " ", count: bytes))\r\n")
                            return await connection.read(until: "}").count
                        }
                    }
                    try await running.counted("http_requests_reading", number + 1)
                }
                // The service may not have read the last body so far yet.
                _ = try await eventually { try await shop.post(path, large).code == "concurrency_limited" ? true : nil }
                group.cancelAll()
                for try await _ in group {}
            }
        }
    }

    @Test("Devices of two apps with one installation id have a rate and places each") func sameDeviceOfTwoApps() throws {
        let (shop, blog) = (try Self.device("shop"), try Self.device("blog"))
        let places = SharedLimit(
            100, share: 10, shareOfApp: 50, reason: .requests, metrics: LimitMetrics(PrometheusMetrics()))
        let held = try (1...SharedLimit.shareOfDevice).map { _ in try places.enter(shop) }
        #expect(throws: APIError.self) { _ = try places.enter(shop) }
        let other = try places.enter(blog)
        #expect(places.used == SharedLimit.shareOfDevice + 1)
        for place in held + [other] { place.end() }

        let rates = RequestRates(defaultRate: 100)
        rates.charge(100_000, to: shop)
        #expect(rates.take(shop)?.isWithin == false)
        #expect(rates.take(blog)?.isWithin == true)
    }

    private static func device(_ app: String) throws -> Caller {
        Caller(
            DeviceCredentialClaims(
                app: try #require(AppSlug(app)), installation: installation(1), user: "ada", ownerEpoch: 0, issuedAt: 0,
                expiresAt: .max))
    }

    @Test("The service refuses a body of more values than one in sixteen bytes of its route's limit") func manyValues() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            func zeros(_ count: Int) -> String { #"{"notifications":[\#(String(repeating: "0,", count: count - 1))0]}"# }
            let path = "/v1/apps/shop/notifications/batch"
            #expect(try await shop.post(path, zeros(262_142)).code == "invalid_request")
            #expect(try await shop.post(path, zeros(262_143)).code == "malformed_json")
            #expect(try await shop.post("/v1/apps/shop/notifications", zeros(65_535)).code == "malformed_json")
            #expect(try await running.client.call("PATCH", "/v1/admin/apps/shop", zeros(4095)).code == "malformed_json")
        }
    }

    @Test("An app whose requests wait for the database keeps out no other app, no look-up of a key, and not the relay")
    func waitingApp() async throws {
        let options = RunningService.Options(settings: ["POSTGRES_POOL_SIZE": "1", "HTTP_MAX_CONCURRENT_REQUESTS": "20"])
        try await RunningService.run(options) { running in
            let shop = try await running.client.makeApp()
            let second = try await running.client.makeKey(app: "shop", scopes: ["read", "send"])
            let other = try await running.client.makeApp("other")
            // Not looked up before the table is locked.
            let fresh = try await running.client.makeKey(app: "other", scopes: ["send"])
            try await shop.register(installation(1), user: "ada", token: token(1))
            _ = try await shop.send(#"{"user":"ada"}"#)
            try await running.allPublished()
            let path = "/v1/apps/shop/users/ada/quiet-hours"
            let (slow, answer) = try await running.holding("LOCK TABLE quiet_hours IN ACCESS EXCLUSIVE MODE") {
                // The app's share is a fifth of the places, the key's a tenth. One request has the connection, and the others wait for it.
                let slow = [shop, shop, second, second].map { client in Task { try await client.get(path) } }
                try await running.counted("http_requests_in_progress", 4)
                for client in [shop, second] {
                    let refused = try await client.get(path)
                    #expect(refused.status == 429 && refused.code == "concurrency_limited")
                }
                let answer = Task { try await other.get("/v1/apps/other/users/ada/installations") }
                try await running.counted("http_requests_in_progress", 5)
                #expect(try await fresh.get("/v1/apps/other/users/ada/installations").code == "forbidden")
                try await running.forgetPublishing()
                try await running.allPublished()
                return (slow, answer)
            }
            #expect(try await answer.value.status == 200)
            for request in slow { #expect(try await request.value.status != 503) }
            #expect(running.counter(#"http_requests_shed_total{reason="requests"}"#) == 0)
        }
    }

    @Test("Apps take turns at the connections to the database, however many requests of one app wait for them")
    func turnsOfApps() async throws {
        try await RunningService.run(RunningService.Options(settings: ["POSTGRES_POOL_SIZE": "2"])) { running in
            let shop = try await running.client.makeApp()
            let other = try await running.client.makeApp("other")
            let general = try await running.client.makeKey(app: nil, scopes: ["read"])
            let pool = running.service.pool
            let slow = try await running.holding("LOCK TABLE quiet_hours IN ACCESS EXCLUSIVE MODE") {
                let (first, slow, answer) = try await running.holding("LOCK TABLE installations IN ACCESS EXCLUSIVE MODE") {
                    let first = (1...2).map { _ in Task { try await general.get(Self.path) } }
                    try await Self.lent(2, pool)
                    let slow = (1...4).map { _ in Task { try await shop.get("/v1/apps/shop/users/ada/quiet-hours") } }
                    try await Self.waiting(4, pool)
                    let answer = Task { try await other.get("/v1/apps/other/users/ada/installations") }
                    try await Self.waiting(5, pool)
                    return (first, slow, answer)
                }
                for request in first { #expect(try await request.value.status == 200) }
                // The first connection that becomes free goes to a slow request, the second one to the other app.
                #expect(try await answer.value.status == 200)
                try await Self.waiting(2, pool)
                return slow
            }
            for request in slow { #expect(try await request.value.status != 503) }
        }
    }

    @Test("The pages of an export wait for the database in the queue of its app") func turnsOfPages() async throws {
        let options = RunningService.Options(
            settings: ["POSTGRES_POOL_SIZE": "1"],
            database: { database in
                // Longer than a caller waits for a connection: the first page waits for the lock until the end.
                database.lockTimeout = .seconds(120)
                database.statementTimeout = .seconds(120)
            })
        try await RunningService.run(options) { running in
            let shop = try await running.client.makeApp()
            let pool = running.service.pool
            let export = try await running.holding("LOCK TABLE installations IN ACCESS EXCLUSIVE MODE") {
                let (export, others, last) = try await running.holding("SELECT 1", in: pool) {
                    // Waits for its entry in the audit trail.
                    let export = Task { try await shop.export().status }
                    try await Self.waiting(1, pool)
                    let others = (1...2).map { _ in
                        Task { try await PostgresPool.$queue.withValue("shop") { try await pool.session { _ in } } }
                    }
                    try await Self.waiting(3, pool)
                    // In another queue: has the connection after the entry, until the first page waits behind the others of the app.
                    let last = Task { try await running.holding("SELECT 1", in: pool) { try await Self.waiting(3, pool) } }
                    try await Self.waiting(4, pool)
                    return (export, others, last)
                }
                try await last.value
                for other in others { try await other.value }
                return export
            }
            #expect(try await export.value == 200)
        }
    }

    private static func lent(_ count: Int, _ pool: PostgresPool) async throws {
        _ = try await eventually { pool.gauges.busy == count ? true : nil }
    }

    private static func waiting(_ count: Int, _ pool: PostgresPool) async throws {
        _ = try await eventually { pool.gauges.waiting == count ? true : nil }
    }

    @Test(
        "By itself an app has at most a fifth of the requests that are in progress, and a key a tenth",
        arguments: [([:], 100, 50), (["HTTP_MAX_CONCURRENT_REQUESTS": "40"], 8, 4), (["HTTP_MAX_CONCURRENT_REQUESTS": "2"], 1, 1)]
            as [([String: String], Int, Int)])
    func shares(settings: [String: String], ofApp: Int, ofKey: Int) throws {
        let config = ConfigReader(provider: EnvironmentVariablesProvider(environmentVariables: settings))
        let limits = try RequestLimits(config)
        #expect(limits.concurrentRequestsPerApp == ofApp && limits.concurrentRequestsPerKey == ofKey)
    }

    @Test("The service refuses deeply nested JSON", arguments: [33, 20_000]) func nestedJSON(depth: Int) async throws {
        try await RunningService.run { running in
            _ = try await running.client.makeApp()
            let nested = #"{"a":"# + String(repeating: "[", count: depth) + String(repeating: "]", count: depth) + "}"
            let refused = try await running.client.call("PATCH", "/v1/admin/apps/shop", nested)
            #expect(refused.status == 400 && refused.code == "malformed_json")
        }
    }
}

@Suite("A token bucket")
struct TokenBucketTests {
    private static let second: Int64 = 1_000_000_000

    @Test("A bucket lets a second's worth in at once, and then the rate", arguments: [1, 3, 77, 20_000, 1_000_000])
    func burstThenRate(rate: Int) {
        var bucket = TokenBucket(rate: rate)
        #expect(
            (1...rate).allSatisfy {
                bucket.take(at: 0) == .init(isWithin: true, limit: rate, remaining: rate - $0, resetSeconds: 1, retryAfterSeconds: 0)
            })
        let refused = bucket.take(at: 0)
        #expect(!refused.isWithin && refused.remaining == 0 && refused.retryAfterSeconds == 1)
        let interval = Self.second / Int64(rate)
        #expect(!bucket.take(at: interval - 1).isWithin)
        #expect(bucket.take(at: interval).isWithin)
        #expect(!bucket.take(at: interval).isWithin)
        let rested = bucket.take(at: 10 * Self.second)
        #expect(rested.isWithin && rested.remaining == rate - 1, "rest is not saved up")
    }

    @Test("A charged key waits, but not for longer than a minute") func chargedWait() {
        var bucket = TokenBucket(rate: 100)
        #expect(bucket.take(at: 0).isWithin)
        bucket.charge(999, at: 0)
        let refused = bucket.take(at: 0)
        #expect(!refused.isWithin && refused.resetSeconds == 10 && refused.retryAfterSeconds == 10)
        #expect(bucket.take(at: 9 * Self.second + 10_000_000).isWithin)
        bucket.charge(.max, at: 10 * Self.second)
        #expect(bucket.take(at: 10 * Self.second).retryAfterSeconds <= 60)
        #expect(bucket.take(at: 71 * Self.second).isWithin)
    }

    @Test("A charge counts for its own key only") func ownAccount() {
        let rates = RequestRates(defaultRate: 10)
        let (one, other) = (Self.caller("a"), Self.caller("b"))
        #expect(rates.take(one)?.isWithin == true)
        rates.charge(1000, to: one)
        #expect(rates.take(one)?.isWithin == false)
        #expect(rates.take(other)?.isWithin == true)
        #expect(RequestRates(defaultRate: 0).take(one) == nil)
    }

    private static func caller(_ id: String) -> Caller { Caller(keyID: id, app: nil, scopes: [.read], requestsPerSecond: nil) }
}
