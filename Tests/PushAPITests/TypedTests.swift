import Foundation
import PushAPI
import TestSupport
import Testing

@Suite("Typed requests and answers")
struct TypedTests {
    @Test("A payload goes out byte for byte, and every name is one part of the path") func bytes() async throws {
        let receipt =
            #"""
            {"id":"i","app":"shop","state":"no_targets","lane":"bulk","push_type":"alert",\#
            "accepted_at":"2026-11-26T12:00:00.250Z","expires_at":"2026-11-27T12:00:00Z",\#
            "warnings":[{"pointer":"/ttl_seconds","code":"c","detail":"d"}]}
            """#
        try await ScriptedServer.run([.answer(202, receipt), .problem(404, "not_found")]) { server, url in
            let shop = PushAPI.test(url).app("shop/1")
            let payload = try PushAPI.JSON(bytes: Array(#"{ "aps" : {"alert":"é\/"}, "n": 1.50 }"#.utf8))
            var notification = PushAPI.NewNotification(to: .users(["ada", "grace"]), .payload(payload))
            notification.notBefore = Date(timeIntervalSince1970: 1_764_158_400.25)
            notification.timeToLive = .seconds(3600)
            notification.locales = ["de": .content(["alert": "Hallo", "badge": 1, "x": [nil, true, 0.5]])]
            let answer = try await shop.send(notification, idempotencyKey: "k")
            #expect(answer.state == .noTargets && answer.deliveries == nil && answer.warnings.map(\.code) == ["c"])
            #expect(answer.acceptedAt == Date(timeIntervalSince1970: 1_795_694_400.25))
            #expect(server.requests[0].target == "/v1/apps/shop%2F1/notifications")
            #expect(server.requests[0].headers["authorization"] == "Bearer psh_test")
            #expect(
                server.requests[0].body
                    == #"""
                    {"to":{"users":["ada","grace"]},"payload":{ "aps" : {"alert":"é\/"}, "n": 1.50 },\#
                    "locales":{"de":{"content":{"alert":"Hallo","badge":1,"x":[null,true,0.5]}}},\#
                    "not_before":"2025-11-26T12:00:00.250Z","ttl_seconds":3600}
                    """#
            )
            await #expect(throws: PushAPIError.self) { try await shop.why("i", user: "a&b=c") }
            #expect(server.requests[1].target == "/v1/apps/shop%2F1/notifications/i/why?user=a%26b%3Dc")
        }
        #expect(throws: PushAPIError.self) { try PushAPI.JSON(bytes: Array(#"{},"to":1"#.utf8)) }
    }

    @Test("A change names what changes, and removes what is removed") func change() async throws {
        try await ScriptedServer.run([.problem(404, "not_found")]) { server, url in
            var change = PushAPI.Change()
            change.user = .removed
            change.locale = .value("de_DE")
            change.appTags = []
            await #expect(throws: PushAPIError.self) { try await PushAPI.test(url).app("shop").change("i", change, expected: .user("ada")) }
            #expect(server.requests[0].method == "PATCH")
            #expect(server.requests[0].body == #"{"user":null,"locale":"de_DE","app_tags":[],"expected_user":"ada"}"#)
        }
    }

    @Test("Deliveries come page by page, also after an empty page") func pages() async throws {
        func delivery(_ id: String) -> String {
            #"""
            {"id":"\#(id)","installation":"i","hint":"…aa","environment":"production","state":"accepted","status":200,\#
            "attempts":1,"updated_at":"2026-11-26T12:00:00.250Z"}
            """#
        }
        let script: [ScriptedServer.Reply] = [
            .answer(200, #"{"receipts":"all","deliveries":[\#(delivery("1")),\#(delivery("2"))],"next_cursor":"a/b"}"#),
            .answer(200, #"{"receipts":"all","deliveries":[],"next_cursor":"c"}"#), .hangUp,
            .answer(200, #"{"receipts":"all","deliveries":[\#(delivery("3"))],"next_cursor":null}"#),
        ]
        try await ScriptedServer.run(script) { server, url in
            var ids: [String] = []
            for try await delivery in PushAPI.test(url).app("shop").deliveries(of: "n", state: "accepted") { ids.append(delivery.id) }
            #expect(ids == ["1", "2", "3"])
            let path = "/v1/apps/shop/notifications/n/deliveries?state=accepted&limit=1000"
            #expect(server.requests.map(\.target) == [path, path + "&cursor=a%2Fb", path + "&cursor=c", path + "&cursor=c"])
        }
    }

    @Test("Waiting asks again until the end") func end() async throws {
        func status(_ state: String, _ pending: Int) -> ScriptedServer.Reply {
            .answer(
                200,
                #"""
                {"id":"n","state":"\#(state)","lane":"now","push_type":"alert","accepted_at":"2026-11-26T12:00:00.250Z",\#
                "expires_at":"2026-11-26T12:00:00.250Z","counts":{"total":2,"pending":\#(pending),"token_gone":1},\#
                "reasons":[{"class":"token_gone","status":410,"reason":"Unregistered","count":1}],"deliveries":[]}
                """#
            )
        }
        try await ScriptedServer.run([status("sending", 2), status("expanding", 1), status("completed", 0)]) { server, url in
            let clock = ManualClock()
            let end = try await PushAPI.test(url, clock).app("shop").end(of: "n", interval: .seconds(2))
            #expect(end.state == .completed && end.counts["token_gone"] == 1 && end.reasons.map(\.outcome) == ["token_gone"])
            #expect(clock.pauses == [.seconds(2), .seconds(2)] && server.requests.count == 3)
        }
    }

    @Test("A validation holds each payload as APNs would get it") func validation() async throws {
        let text =
            #"""
            {"push_type":"alert","topic":"t","bundle_id":"t","priority":10,"lane":"now","apns_expiration":0,\#
            "on_unknown":"resend","expires_at":"2026-11-26T12:00:00.250Z","payloads":[{"locale":null,"bytes":2,\#
            "maximum_bytes":4096,"payload":{ }},{"locale":"de","bytes":7,"maximum_bytes":4096,"payload":{"a":1.0}}],\#
            "warnings":[],"audience":{"devices":1,"deliveries":1,"is_lower_bound":false,"reasons":[]}}
            """#
        try await ScriptedServer.run([.answer(200, text)]) { _, url in
            let validation = try await PushAPI.test(url).app("shop").validate(.init(to: .all, .payload([:])))
            #expect(validation.payloads.map(\.locale) == [nil, "de"])
            #expect(validation.payloads.map { String(decoding: $0.payload.bytes, as: UTF8.self) } == ["{ }", #"{"a":1.0}"#])
        }
    }

    @Test("The answer to a credential goes to the app as it came") func credential() async throws {
        let text = #"{"credential":"psd_x","installation":"i","user":null,"expires_at":"2026-11-26T12:00:00.250Z"}"#
        try await ScriptedServer.run([.answer(201, text)]) { server, url in
            let credential = try await PushAPI.test(url).app("shop").deviceCredential(installation: "i", user: nil, lifetime: .seconds(60))
            #expect(credential.answer?.bytes == Array(text.utf8) && credential.user == nil && credential.credential == "psd_x")
            #expect(server.requests[0].body == #"{"installation":"i","user":null,"lifetime_seconds":60}"#)
        }
    }

    @Test("An answer of another shape is unreadable") func shape() async throws {
        try await ScriptedServer.run([.answer(200, #"{"id":1}"#), .answer(200, "<html>")]) { _, url in
            for _ in 1...2 {
                let error = await #expect(throws: PushAPIError.self) { try await PushAPI.test(url).app("shop").status("n") }
                #expect(error.map { "\($0)".hasPrefix("GET /v1/apps/shop/notifications/n was answered with") } == true)
                #expect(error?.isTemporary == false)
            }
        }
    }
}
