import APNsSimulator
import HTTP2
import Testing

@Suite("A scenario's rules apply to requests", .timeLimit(.minutes(5)))
struct RequestFaultTests {
    /// Different answers show which request the rule selected.
    private func with(
        _ requests: String, gate: Bool = false, _ body: (TestSimulator, PushClient) async throws -> Void
    ) async throws {
        try await withSimulator {
            $0.scenario = try Scenario(text: #"{"v":1,"name":"test","requests":\#(requests)}"#)
            $0.streamGate = gate
        } _: { test in
            try await body(test, try test.client())
        }
    }

    @Test("Rules select positions and every n-th request, and the first match applies")
    func positions() async throws {
        let rules = #"""
            [{"positions":[2,3],"do":[{"action":"answer","status":503,"reason":"Shutdown"}]},
             {"every":3,"do":[{"action":"answer","status":500}]}]
            """#
        try await with(rules) { test, client in
            let statuses = try (0..<6).map { _ in try client.send(test.push()).status }
            #expect(statuses == [200, 503, 503, 200, 200, 500])
            #expect(test.simulator.performance?.strikes.map(\.count) == [2, 1])
        }
    }

    @Test("Rules select tokens, topics, push types, environments and connections")
    func aims() async throws {
        let rules = #"""
            [{"tokens":["AA"],"do":[{"action":"answer","status":410,"reason":"Unregistered","timestamp_ms":5}]},
             {"topics":["com.example.other"],"do":[{"action":"answer","status":400,"reason":"TopicDisallowed"}]},
             {"push_types":["background"],"do":[{"action":"answer","status":429,"reason":"TooManyRequests"}]},
             {"environment":"sandbox","do":[{"action":"answer","status":500}]},
             {"connections":[2],"do":[{"action":"answer","status":503}]}]
            """#
        try await with(rules) { test, first in
            #expect(try first.send(test.push().to("aa")).body == #"{"reason":"Unregistered","timestamp":5}"#)
            #expect(try first.send(test.push().with("apns-topic", "com.example.other")).status == 400)
            let background = test.push().with("apns-push-type", "background").with("apns-priority", "5")
            #expect(try first.send(background).status == 429)
            #expect(try first.send(test.push()).status == 200)
            let second = try test.client()
            #expect(try second.send(test.push()).status == 503)
            let sandbox = try test.client(.sandbox)
            #expect(try sandbox.send(test.push()).status == 500)
        }
    }

    @Test("A share of tokens is always the same tokens")
    func shareOfTokens() async throws {
        let rules = #"[{"share_of_tokens":0.4,"do":[{"action":"answer","status":410,"reason":"ExpiredToken"}]}]"#
        try await with(rules) { test, client in
            let tokens = (0..<40).map { "aabb" + String(1000 + $0) }
            let rounds = try (0..<2).map { _ in try tokens.map { try client.send(test.push().to($0)).status } }
            #expect(rounds[0] == rounds[1])
            #expect((6...26).contains(rounds[0].count { $0 == 410 }))
        }
    }

    @Test("A server fault comes before the checks, a rejection by rule after them")
    func order() async throws {
        let rules = #"""
            [{"positions":[1],"do":[{"action":"answer","status":503}]},
             {"positions":[2],"do":[{"action":"answer","status":410,"reason":"Unregistered"}]}]
            """#
        try await with(rules) { test, client in
            let bad = test.push().with("apns-priority", "3")
            let bodies = try (0..<2).map { _ in try client.send(bad).body }
            #expect(bodies == ["", #"{"reason":"BadPriority"}"#])
        }
    }

    @Test("An answer in pieces is whole when they are put together")
    func pieces() async throws {
        try await with(#"[{"do":[{"action":"answer","status":400,"reason":"BadTopic","frame_bytes":1}]}]"#) { test, client in
            let response = try client.send(test.push())
            #expect(response.body == #"{"reason":"BadTopic"}"#)
            #expect(client.pieces.values.first == response.body.utf8.count)
        }
    }

    @Test("A late answer is the usual one, later; time windows follow the clock")
    func late() async throws {
        let rules = #"""
            [{"tokens":["aa"],"do":[{"action":"late","delay":{"from_ms":120,"to_ms":130}}]},
             {"tokens":["bb"],"do":[{"action":"late","delay_ms":20}]},
             {"from_ms":10000,"until_ms":20000,"do":[{"action":"answer","status":500}]}]
            """#
        try await with(rules) { test, client in
            let late = try client.submit(test.push().to("aa").with("apns-topic", "com.example.voip"))
            let soon = try client.submit(test.push().to("bb"))
            let now = try client.submit(test.push())
            try client.run { $0.closed[now] != nil && $0.closed[soon] != nil }
            #expect(client.closed[late] == nil)
            try client.run { $0.closed[late] != nil }
            #expect([late, soon, now].map { client.responses[$0]?.status } == [200, 200, 200])
            test.clock.advance(by: .seconds(10))
            #expect(try client.send(test.push()).status == 500)
            test.clock.advance(by: .seconds(10))
            #expect(try client.send(test.push()).status == 200)
        }
    }

    @Test("A rule leaves requests unanswered or resets them with any code")
    func silenceAndReset() async throws {
        let rules = #"""
            [{"positions":[1],"do":[{"action":"silence"}]},
             {"positions":[2],"do":[{"action":"reset"}]},
             {"positions":[3],"do":[{"action":"reset","error_code":4242,"delay_ms":5}]}]
            """#
        try await with(rules) { test, client in
            let silent = try client.submit(test.push())
            let streams = try (0..<2).map { _ in try client.submit(test.push()) }
            try client.run { client in streams.allSatisfy { client.closed[$0] != nil } }
            #expect(streams.map { client.closed[$0]?.rawValue } == [7, 4242])
            #expect(try client.send(test.push()).status == 200)
            #expect(client.closed[silent] == nil)
        }
    }

    @Test("A rule closes the connection silently, gently or with a reset", arguments: [false, true])
    func close(_ abruptly: Bool) async throws {
        try await with(#"[{"positions":[2],"do":[{"action":"close","abruptly":\#(abruptly)}]}]"#) { test, client in
            #expect(try client.send(test.push()).status == 200)
            let stream = try client.submit(test.push())
            try client.run { $0.isOver }
            #expect(client.responses[stream] == nil)
            #expect(client.goAways.isEmpty)
        }
    }

    @Test(
        "GOAWAY with any last stream, code and reason",
        arguments: [
            (#""reason":"Shutdown""#, Int32(1), UInt32(0), #"{"reason":"Shutdown"}"#, false),
            (#""last_stream":"this","error_code":11"#, 3, 11, "", true),
            (#""last_stream":0,"text":"Maximum active streams violated","error_code":7"#, 0, 7, "Maximum active streams violated", false),
            (#""last_stream":"all""#, .max, 0, "", true),
            (#""last_stream":9999,"error_code":4294967295"#, 9999, .max, "", true),
        ])
    func goAway(_ fields: String, _ last: Int32, _ code: UInt32, _ debug: String, _ isAnswered: Bool) async throws {
        try await with(#"[{"positions":[2],"do":[{"action":"goaway",\#(fields)}]}]"#) { test, client in
            #expect(try client.send(test.push()).status == 200)
            let stream = try client.submit(test.push())
            try client.run { $0.closed[stream] != nil && !$0.goAways.isEmpty }
            #expect(client.goAways.count == 1)
            #expect(client.goAways[0].lastStream == last)
            #expect(client.goAways[0].code.rawValue == code)
            #expect(client.goAways[0].debug == debug)
            #expect(client.responses[stream]?.status == (isAnswered ? 200 : nil))
            #expect(client.closed[stream] == (isAnswered ? .noError : .refusedStream))
            #expect(test.simulator.journal().map(\.action) == [.answer, isAnswered ? .answer : .goAway])
        }
    }

    @Test("GOAWAY may end the TCP connection too")
    func goAwayAndClose() async throws {
        try await with(#"[{"do":[{"action":"goaway","reason":"Shutdown","close":true}]}]"#) { test, client in
            _ = try client.submit(test.push())
            try client.run { $0.isOver }
            #expect(client.goAways.map(\.debug) == [#"{"reason":"Shutdown"}"#])
        }
    }

    @Test("Half a frame, and then nothing or the end", arguments: [false, true])
    func halfFrame(_ closes: Bool) async throws {
        try await with(#"[{"positions":[2],"do":[{"action":"half_frame","close":\#(closes)}]}]"#) { test, client in
            #expect(try client.send(test.push()).status == 200)
            let stream = try client.submit(test.push())
            try client.poll()
            if !closes {
                _ = await test.simulator.journal(reaching: 2)
                client.http2.ping(7)
                try client.poll()
                test.simulator.closeConnections()
            }
            try client.run { $0.isOver }
            #expect(client.responses[stream] == nil)
            #expect(client.pongs.isEmpty)
            #expect(test.simulator.counters.unanswered == [.halfFrame: 1])
        }
    }

    @Test("A frozen connection answers not even a PING, and others do not notice")
    func freeze() async throws {
        try await with(#"[{"connections":[1],"positions":[2],"do":[{"action":"freeze"}]}]"#) { test, client in
            #expect(try client.send(test.push()).status == 200)
            let stream = try client.submit(test.push())
            client.http2.ping(7)
            try client.poll()
            _ = await test.simulator.journal(reaching: 2)
            let other = try test.client()
            #expect(try other.send(test.push()).status == 200)
            #expect(try other.send(test.push()).status == 200)
            test.simulator.closeConnections()
            try client.run { $0.isOver }
            #expect(client.responses[stream] == nil)
            #expect(client.pongs.isEmpty)
        }
    }

    @Test("The simulator records and counts pushes on a frozen connection as not answered, and no device shows them")
    func frozenPushes() async throws {
        try await with(#"[{"positions":[2],"do":[{"action":"freeze"}]}]"#) { test, client in
            try test.simulator.install(TestPush.token)
            #expect(try client.send(test.push()).status == 200)
            for _ in 0..<3 { try client.submit(test.push()) }
            try client.poll()
            let entries = await test.simulator.journal(reaching: 4)
            #expect(entries.map(\.action) == [.answer, .silence, .silence, .silence])
            #expect(test.simulator.counters.accepted == 1)
            #expect(test.simulator.counters.unanswered == [.silence: 3])
            #expect(try test.simulator.inbox(TestPush.token).count == 1)
        }
    }

    @Test("SETTINGS shrink, and grow again when the scenario is over")
    func streams() async throws {
        try await with(#"[{"positions":[2],"do":[{"action":"streams","streams":3}]}]"#) { test, client in
            for _ in 0..<2 { #expect(try client.send(test.push()).status == 200) }
            try client.run { $0.limits.last == 3 }
            try test.simulator.playNothing()
            try client.run { $0.limits.last == 1000 }
            #expect(client.limits == [1000, 3, 1000])
        }
    }

    @Test("With the window shut no body gets through, until the scenario is over")
    func window() async throws {
        try await with(#"[{"positions":[1],"do":[{"action":"window","bytes":0}]}]"#) { test, client in
            #expect(try client.send(test.push()).status == 200)
            try client.roundTrip(1)
            let stalled = try client.submit(test.push())
            try client.roundTrip(2)
            #expect(client.closed[stalled] == nil)
            #expect(test.simulator.counters.requests == 1)
            try test.simulator.playNothing()
            try client.run { $0.closed[stalled] != nil }
            #expect(client.responses[stalled]?.status == 200)
        }
    }
}
