import PushAPI
import TestSupport
import Testing

@Suite("Which calls are repeated, and when")
struct RepeatTests {
    private static let receipt = ScriptedServer.Reply.answer(
        202,
        #"""
        {"id":"i","app":"shop","state":"accepted","lane":"now","push_type":"alert","deliveries":1,\#
        "accepted_at":"2026-11-26T12:00:00.250Z","expires_at":"2026-11-27T12:00:00.250Z","warnings":[]}
        """#
    )
    private static let notification = PushAPI.NewNotification(to: .user("ada"), .alert(title: "Hello"))

    @Test("A send without an idempotency key makes one, and keeps it through lost connections, 429 and 503") func keptKey() async throws {
        let script: [ScriptedServer.Reply] = [
            .hangUp, .problem(503, "backlog_full", retryAfter: 5, retryable: true), .problem(429, "rate_limited", retryAfter: 1),
            .problem(409, "idempotency_in_progress", retryAfter: 1, retryable: true), Self.receipt,
        ]
        try await ScriptedServer.run(script) { server, url in
            let clock = ManualClock()
            let shop = PushAPI.test(url, clock).app("shop")
            let receipt = try await shop.send(Self.notification)
            #expect(receipt.id == "i")
            let keys = server.requests.map { $0.headers["idempotency-key"] }
            #expect(keys.count == 5 && Set(keys).count == 1 && keys[0]?.isEmpty == false)
            #expect(Set(server.requests.map(\.body)).count == 1)
            #expect(clock.pauses.count == 4 && clock.pauses[1] > .seconds(5) && clock.pauses[2] > .seconds(1))
        }
        // Another call is another notification.
        try await ScriptedServer.run([Self.receipt, Self.receipt, Self.receipt]) { server, url in
            let shop = PushAPI.test(url).app("shop")
            for _ in 1...2 { try await shop.send(Self.notification) }
            try await shop.send(Self.notification, idempotencyKey: "order-4711")
            let keys = server.requests.map { $0.headers["idempotency-key"] }
            #expect(Set(keys).count == 3 && keys[2] == "order-4711")
        }
    }

    @Test("The items of a batch keep their keys through a repeat") func batch() async throws {
        let results =
            #"""
            {"results":[\#(Self.text),{"status":400,"code":"invalid_request","detail":"see errors","retryable":false,\#
            "errors":[{"pointer":"/to","code":"missing","detail":"required"}]}]}
            """#
        try await ScriptedServer.run([.hangUp, .answer(202, results)]) { server, url in
            let answers = try await PushAPI.test(url).app("shop").send([
                .init(Self.notification), .init(Self.notification, idempotencyKey: "k"),
            ])
            #expect(server.requests.count == 2 && server.requests[0].body == server.requests[1].body)
            #expect(server.requests[0].body.hasSuffix(#""idempotency_key":"k"}]}"#))
            #expect(try answers[0].get().deliveries == 1)
            guard case .failure(.refused(let problem)) = answers[1] else {
                Issue.record("the second item was not refused: \(answers[1])")
                return
            }
            #expect(problem.code == "invalid_request" && problem.errors.map(\.pointer) == ["/to"] && problem.call == nil)
        }
    }

    private static var text: String { if case .answer(_, let text, _) = receipt { text } else { "" } }

    @Test("A refusal that would come again is thrown at once, with the problem document") func lasting() async throws {
        let body =
            #"""
            {"type":"urn:push:problem:invalid_request","title":"The request is not valid","status":400,\#
            "code":"invalid_request","detail":"see errors","errors":[{"pointer":"/to","code":"missing","detail":"required"}],\#
            "retryable":false}
            """#
        try await ScriptedServer.run([.answer(400, body), .answer(404, "gone")]) { server, url in
            let shop = PushAPI.test(url).app("shop")
            let error = await #expect(throws: PushAPIError.self) { try await shop.send(Self.notification) }
            guard case .refused(let problem) = error else {
                Issue.record("not a refusal: \(String(describing: error))")
                return
            }
            #expect(problem.status == 400 && problem.code == "invalid_request" && problem.detail == "see errors" && !problem.isTemporary)
            #expect(problem.errors.map(\.pointer) == ["/to"] && problem.errors.map(\.code) == ["missing"])
            #expect(
                "\(problem)" == "POST /v1/apps/shop/notifications was refused: 400 invalid_request; see errors; /to: required")
            // A proxy explains nothing.
            let other = await #expect(throws: PushAPIError.self) { try await shop.status("i") }
            #expect(other.map { "\($0)" } == "GET /v1/apps/shop/notifications/i was refused: status 404")
            #expect(server.requests.count == 2)
        }
    }

    @Test("A call ends with the last failure when the next attempt would begin after its deadline") func deadline() async throws {
        try await ScriptedServer.run(Array(repeating: .problem(503, "overloaded", retryAfter: 4, retryable: true), count: 9)) {
            server, url in
            let clock = ManualClock()
            let error = await #expect(throws: PushAPIError.self) {
                try await PushAPI.test(url, clock, deadline: .seconds(10)).app("shop").status("i")
            }
            #expect(error?.isTemporary == true)
            #expect(server.requests.count == 2 || server.requests.count == 3)
            #expect(clock.pauses.reduce(.zero, +) < .seconds(10))
        }
        try await ScriptedServer.run([.problem(429, "rate_limited", retryAfter: 3600)]) { server, url in
            let clock = ManualClock()
            await #expect(throws: PushAPIError.self) { try await PushAPI.test(url, clock).app("shop").status("i") }
            #expect(server.requests.count == 1 && clock.pauses.isEmpty, "it waited for an hour")
        }
    }

    @Test("A call whose own success would be in the way of its repeat is not repeated after a lost connection, but after 429")
    func conditional() async throws {
        let registration = PushAPI.Registration(user: "ada", tokens: [], keeps: ["location"])
        try await ScriptedServer.run([.problem(429, "rate_limited", retryAfter: 1), .hangUp]) { server, url in
            await #expect(throws: PushAPIError.self) {
                try await PushAPI.test(url).app("shop").register("i", registration, expected: .nobody)
            }
            #expect(server.requests.count == 2)
            #expect(server.requests[0].body == #"{"user":"ada","tokens":[],"keeps":["location"],"expected_user":null}"#)
        }
        try await ScriptedServer.run([.problem(503, "database_unavailable", retryable: true)]) { server, url in
            await #expect(throws: PushAPIError.self) {
                try await PushAPI.test(url).app("shop").change("i", .init(), ifMatch: "\"e\"")
            }
            #expect(server.requests.count == 1 && server.requests[0].headers["if-match"] == "\"e\"")
        }
        // A plain POST of an untyped call may have had its effect.
        try await ScriptedServer.run([.hangUp]) { server, url in
            let error = await #expect(throws: PushAPIError.self) { try await PushAPI.test(url).call(.init(.post, "/v1/x", json: [])) }
            guard case .lostConnection = error else {
                Issue.record("not a lost connection: \(String(describing: error))")
                return
            }
            #expect(server.requests.count == 1)
        }
    }

    @Test("A sign-out is repeated after a lost connection") func signOut() async throws {
        let answer = ScriptedServer.Reply.answer(200, #"{"id":"i","signed_out":true,"owner_epoch":2,"fence":"effective"}"#)
        try await ScriptedServer.run([.hangUp, answer]) { server, url in
            let out = try await PushAPI.test(url).app("shop").signOut("i", expectedUser: "ada")
            #expect(out.signedOut && out.ownerEpoch == 2 && out.fence == .effective)
            #expect(server.requests.map(\.body) == Array(repeating: #"{"expected_user":"ada"}"#, count: 2))
        }
    }

    @Test("An answer that stops in its middle is a lost connection when the attempt's time is over") func half() async throws {
        try await ScriptedServer.run([.half]) { _, url in
            let api = PushAPI(baseURL: url, key: nil, attemptTimeout: .milliseconds(200))
            let error = await #expect(throws: PushAPIError.self) { try await api.once(.init(.get, "/v1/x")) }
            guard case .lostConnection(let words) = error else {
                Issue.record("not a lost connection: \(String(describing: error))")
                return
            }
            #expect(words.hasPrefix("GET \(url)/v1/x: no answer ("))
        }
    }

    @Test(
        "A base URL with an impossible port is an error of its own, and not the end of the process",
        arguments: ["http://127.0.0.1:65536", "http://127.0.0.1:0/", "http://[::1]:18446744073709552059"])
    func impossiblePort(url: String) async {
        let api = PushAPI(baseURL: url, key: nil, attemptTimeout: .seconds(60))
        for call in [PushAPI.Call(.get, "/v1/x"), PushAPI.Call(.post, "/v1/x", json: Array("{}".utf8))] {
            let error = await #expect(throws: PushAPIError.self) { try await api.call(call) }
            guard case .unreadable(let words) = error else {
                Issue.record("\(String(describing: error))")
                continue
            }
            #expect(words.hasSuffix("has a port that is not from 1 to 65535"))
        }
    }

    @Test(
        "A base URL with other characters than ASCII is an error of its own, and not the end of the process",
        arguments: ["http://bücher.example:8080", "http://bücher.example", "http://127.0.0.1:8080/ü", "http://127.0.0.1:8080/ "])
    func otherThanASCII(url: String) async {
        let error = await #expect(throws: PushAPIError.self) { try await PushAPI(baseURL: url, key: nil).call(PushAPI.Call(.get, "/v1/x")) }
        guard case .unreadable(let words) = error else {
            Issue.record("\(String(describing: error))")
            return
        }
        #expect(words.hasSuffix("write an international host name as xn--…"))
    }

    @Test("A cancelled task throws CancellationError, in a request and in a pause") func cancellation() async throws {
        try await ScriptedServer.run([.silence, .problem(503, "overloaded", retryAfter: 600, retryable: true)]) { server, url in
            // Its clock is the real one.
            let shop = PushAPI(baseURL: url, key: nil, deadline: .seconds(3600), attemptTimeout: .seconds(600)).app("shop")
            for _ in 1...2 {
                let task = Task { try await shop.send(Self.notification) }
                try await server.arrivals.next()
                task.cancel()
                await #expect(throws: CancellationError.self) { try await task.value }
            }
            #expect(server.requests.count == 2)
        }
    }
}
