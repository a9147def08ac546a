import APNsSimulator
import HTTP2
import Testing

@Suite("A scenario's rules apply to channel requests and broadcasts as to pushes", .timeLimit(.minutes(5)))
struct ChannelFaultTests {
    private static let path = "/1/apps/\(TestPush.topic)/channels"
    private static let listPath = "/1/apps/\(TestPush.topic)/all-channels"

    private func with(_ requests: String, _ body: (TestSimulator) async throws -> Void) async throws {
        try await withSimulator {
            $0.scenario = try Scenario(text: #"{"v":1,"name":"test","requests":\#(requests)}"#)
            ($0.streamGate, $0.streamPenalty) = (false, false)
        } _: { test in
            try await body(test)
        }
    }

    private func list(_ test: TestSimulator) -> TestPush { ChannelRequests.request(test, "GET", Self.listPath) }

    @Test("A rule without `on` applies to all three kinds; `on` selects some", arguments: ["", "push", "channels", "broadcast"])
    func kinds(_ kind: String) async throws {
        let filter = kind.isEmpty ? "" : #""on":["\#(kind)"],"#
        try await with(#"[{\#(filter)"from_ms":1,"do":[{"action":"answer","status":503,"reason":"ServiceUnavailable"}]}]"#) { test in
            let channel = try ChannelRequests.create(test, ChannelRequests.manage(test))
            test.clock.advance(by: .seconds(1))
            let manager = try ChannelRequests.manage(test).send(list(test))
            let sender = try test.client()
            let answers = try [sender.send(test.push()), manager, sender.send(ChannelRequests.broadcast(test, channel))]
            let expected = ["push", "channels", "broadcast"].map { kind.isEmpty || kind == $0 ? 503 : 200 }
            #expect(answers.map(\.status) == expected)
            for answer in answers where answer.status == 503 { #expect(answer.body == #"{"reason":"ServiceUnavailable"}"#) }
            #expect(test.simulator.counters.rejections.values.reduce(0, +) == Int64(expected.count { $0 == 503 }))
        }
    }

    @Test("Two kinds may be named, with any other condition beside them")
    func conditions() async throws {
        let rules = #"""
            [{"on":["channels","broadcast"],"positions":[2],"topics":["\#(TestPush.topic)"],"do":[{"action":"answer","status":500}]}]
            """#
        try await with(rules) { test in
            let manager = try ChannelRequests.manage(test)
            let other = list(test).path("/1/apps/com.example.other/all-channels")
            #expect(try [list(test), list(test), other].map { try manager.send($0).status } == [200, 500, 200])
            let sender = try test.client()
            #expect(try [test.push(), test.push()].map { try sender.send($0).status } == [200, 200])
        }
    }

    @Test("A request that was refused, swallowed or reset has no effect; a late one has")
    func undone() async throws {
        let rules = #"""
            [{"positions":[1],"do":[{"action":"answer","status":500,"reason":"InternalServerError","frame_bytes":3}]},
             {"positions":[2],"do":[{"action":"silence"}]},
             {"positions":[3],"do":[{"action":"reset","error_code":8}]},
             {"positions":[4],"do":[{"action":"late","delay_ms":5}]}]
            """#
        try await with(rules) { test in
            let manager = try ChannelRequests.manage(test)
            let body = #"{"message-storage-policy":1,"push-type":"LiveActivity"}"#
            let create = ChannelRequests.request(test, "POST", Self.path, body)
            #expect(try manager.send(create).body == #"{"reason":"InternalServerError"}"#)
            #expect(manager.pieces.values.first.map { $0 > 5 } == true)
            let silent = try manager.submit(create)
            let reset = try manager.submit(create)
            let late = try manager.submit(create)
            try manager.run { $0.closed[late] != nil && $0.closed[reset] != nil }
            #expect(manager.closed[reset]?.rawValue == 8)
            #expect(manager.closed[silent] == nil)
            #expect(manager.responses[late]?.status == 201)
            let made = try #require(manager.responses[late]?.channelID)
            #expect(try manager.send(list(test)).body == #"{"channels":["\#(made)"]}"#)
            #expect(test.simulator.journal().map(\.action) == [.answer, .silence, .reset, .answer, .answer])
            #expect(test.simulator.journal().map(\.status) == [500, nil, nil, 201, 200])
        }
    }

    @Test("No device shows a refused broadcast, and every device shows a late one")
    func unheard() async throws {
        try await withControl {
            $0.scenario = try Scenario(
                text: #"""
                    {"v":1,"name":"test","requests":[
                      {"on":["broadcast"],"positions":[1],"do":[{"action":"answer","status":503,"reason":"Shutdown"}]},
                      {"on":["broadcast"],"do":[{"action":"late","delay_ms":5}]}]}
                    """#)
        } _: { control in
            let test = control.test
            let channel = try ChannelRequests.create(test, ChannelRequests.manage(test))
            try await control.call("PUT", "/v1/devices/aa", #"{"environment":"production"}"#)
            try await control.call("PUT", "/v1/devices/aa/channels", #"{"channels":["\#(channel)"]}"#)
            let client = try test.client()
            #expect(try client.send(ChannelRequests.broadcast(test, channel)).status == 503)
            #expect(try test.simulator.inbox("aa").isEmpty)
            #expect(try client.send(ChannelRequests.broadcast(test, channel)).status == 200)
            #expect(try test.simulator.inbox("aa").count == 1)
        }
    }

    @Test("A rejection by rule comes after the checks, a server fault before them")
    func order() async throws {
        let rules = #"""
            [{"positions":[1],"do":[{"action":"answer","status":503}]},
             {"do":[{"action":"answer","status":403,"reason":"InvalidProviderToken"}]}]
            """#
        try await with(rules) { test in
            let manager = try ChannelRequests.manage(test)
            let bad = ChannelRequests.request(test, "PUT", Self.path)
            #expect(try manager.send(bad).body == "")
            #expect(try manager.send(bad).body == #"{"reason":"MethodNotAllowed"}"#)
            #expect(try manager.send(list(test)).body == #"{"reason":"InvalidProviderToken"}"#)
        }
    }

    @Test("A fault of a request also hits its connection: GOAWAY, closing, half a frame, fewer streams", arguments: 0..<4)
    func connection(_ index: Int) async throws {
        let action = [
            #"{"action":"goaway","reason":"Shutdown"}"#, #"{"action":"close"}"#, #"{"action":"half_frame","close":true}"#,
            #"{"action":"streams","streams":3}"#,
        ][index]
        try await with(#"[{"on":["channels"],"positions":[2],"do":[\#(action)]}]"#) { test in
            let manager = try ChannelRequests.manage(test)
            #expect(try manager.send(list(test)).status == 200)
            let stream = try manager.submit(list(test))
            switch index {
            case 0:
                try manager.run { $0.closed[stream] != nil && !$0.goAways.isEmpty }
                #expect(manager.goAways[0].lastStream == stream - 2)
                #expect(manager.closed[stream] == .refusedStream)
            case 3:
                try manager.run { $0.limits.last == 3 }
                try manager.run { $0.closed[stream] != nil }
                #expect(manager.responses[stream]?.status == 200)
            default:
                try manager.run { $0.isOver }
                #expect(manager.responses[stream] == nil)
            }
        }
    }

    @Test("The same scenario repeats its faults, and another seed makes others")
    func seeded() async throws {
        func run(seed: Int) async throws -> [String] {
            try await withSimulator {
                $0.scenario = try Scenario(
                    text: #"""
                        {"v":1,"name":"mix","seed":\#(seed),"requests":[
                          {"share":0.4,"do":[{"action":"answer","status":500},{"action":"answer","status":503},{"action":"reset"}]}]}
                        """#)
                ($0.streamGate, $0.streamPenalty) = (false, false)
            } _: { test in
                let manager = try ChannelRequests.manage(test)
                let streams = try (0..<40).map { _ in try manager.submit(list(test)) }
                try manager.run { client in streams.allSatisfy { client.closed[$0] != nil } }
                return test.simulator.journal().map { "\($0.stream) \($0.action) \($0.status ?? 0)" }
            }
        }
        let (first, second, other) = (try await run(seed: 4), try await run(seed: 4), try await run(seed: 5))
        #expect(first == second)
        #expect(first != other)
        #expect(Set(first.map { $0.drop { $0 != " " } }).count == 4)
    }

    @Test("An overloaded server refuses them too, and is well again a second later")
    func overload() async throws {
        try await withSimulator {
            $0.requestsPerSecond = 1
        } _: { test in
            let manager = try ChannelRequests.manage(test)
            #expect(try manager.send(list(test)).status == 200)
            #expect(try manager.send(list(test)).body == #"{"reason":"ServiceUnavailable"}"#)
            #expect(try test.client().send(test.push().with("apns-priority", "4")).body == #"{"reason":"ServiceUnavailable"}"#)
            test.clock.advance(by: .seconds(1))
            #expect(try manager.send(list(test)).status == 200)
        }
    }
}
