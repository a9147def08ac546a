import APNsSimulator
import HTTP2
import Testing

@Suite("A script decides the answers to a token's pushes", .timeLimit(.minutes(5)))
struct ScriptTests {
    @Test("Answers come in order, and then the device's own state")
    func order() async throws {
        try await withSimulator { test in
            try test.simulator.install(TestPush.token)
            try test.simulator.script(
                TestPush.token,
                [
                    .reject(.tooManyRequests), .answer(status: 599, reason: "NeverHeardOf"), .reject(.unregistered, timestamp: 5),
                    .answer(status: 500),
                ])
            let client = try test.client()
            let answers = try (0..<5).map { _ in try client.send(test.push()) }
            #expect(answers.map(\.status) == [429, 599, 410, 500, 200])
            #expect(
                answers.map(\.body) == [
                    #"{"reason":"TooManyRequests"}"#, #"{"reason":"NeverHeardOf"}"#, #"{"reason":"Unregistered","timestamp":5}"#, "", "",
                ])
            #expect(try test.simulator.inbox(TestPush.token).count == 1)
        }
    }

    @Test("A repeating script begins again, and ends when it is removed")
    func repeats() async throws {
        try await withSimulator { test in
            try test.simulator.script(TestPush.token, [.reject(.serviceUnavailable), .accept], then: .repeat)
            let client = try test.client()
            let scripted = try (0..<5).map { _ in try client.send(test.push()).status }
            #expect(scripted == [503, 200, 503, 200, 503])
            try test.simulator.removeScript(TestPush.token)
            let unscripted = try (0..<2).map { _ in try client.send(test.push()).status }
            #expect(unscripted == [200, 200])
        }
    }

    @Test("A script is for its token only, and overrules an uninstalled device")
    func scope() async throws {
        try await withSimulator { test in
            try test.simulator.install(TestPush.token)
            try test.simulator.uninstall(TestPush.token)
            try test.simulator.script(TestPush.token, [.accept, .reject(.shutdown)], then: .repeat)
            let client = try test.client()
            #expect(try client.send(test.push()).status == 200)
            #expect(try client.send(test.push().to("ff")).status == 200)
            #expect(try client.send(test.push()).status == 503)
        }
    }

    @Test("A push that is at fault itself does not use up a step")
    func faultsFirst() async throws {
        try await withSimulator { test in
            try test.simulator.script(TestPush.token, [.reject(.tooManyRequests)])
            let client = try test.client()
            #expect(try client.send(test.push().with("apns-priority", "3")).status == 400)
            #expect(try client.send(test.push()).status == 429)
        }
    }

    @Test("Late answers come in the order of their moments and hold nothing else up")
    func delays() async throws {
        try await withSimulator {
            $0.streamGate = false
        } _: { test in
            try test.simulator.script("aa", [.accept.delayed(by: .milliseconds(120))])
            try test.simulator.script("bb", [.reject(.tooManyRequests).delayed(by: .milliseconds(20))])
            let client = try test.client()
            let late = try client.submit(test.push().to("aa"))
            let soon = try client.submit(test.push().to("bb"))
            let now = try client.submit(test.push().to("cc"))
            try client.run { $0.order.count == 3 }
            #expect(client.order == [now, soon, late])
            #expect([late, soon, now].map { client.responses[$0]?.status } == [200, 429, 200])
        }
    }

    @Test("Silence leaves the stream open while others are answered")
    func silence() async throws {
        try await withSimulator { test in
            try test.simulator.script("aa", [.silence])
            let client = try test.client()
            let silent = try client.submit(test.push().to("aa"))
            try client.run { $0.limits.last == 1000 }
            #expect(try client.send(test.push()).status == 200)
            try client.roundTrip(1)
            #expect(client.responses[silent] == nil)
            #expect(client.closed[silent] == nil)
            #expect(test.simulator.counters.unanswered == [.silence: 1])
            #expect(test.simulator.journal().map(\.status) == [nil, 200])
        }
    }

    @Test("Reset ends the stream with the requested code", arguments: [HTTP2ErrorCode.refusedStream, .internalError])
    func reset(_ code: HTTP2ErrorCode) async throws {
        try await withSimulator { test in
            try test.simulator.script(TestPush.token, [.reset(code.rawValue)])
            let client = try test.client()
            let stream = try client.submit(test.push())
            try client.run { $0.closed[stream] != nil }
            #expect(client.closed[stream] == code)
            #expect(client.responses[stream] == nil)
        }
    }

    @Test("Close ends the connection without an answer")
    func close() async throws {
        try await withSimulator { test in
            try test.simulator.script(TestPush.token, [.close])
            let client = try test.client()
            let stream = try client.submit(test.push())
            try client.run { $0.isOver }
            #expect(client.responses[stream] == nil)
            #expect(client.goAways.isEmpty)
        }
    }

    @Test("GOAWAY by script refuses this push and later ones, and lets earlier ones finish")
    func goAway() async throws {
        try await withSimulator {
            $0.streamGate = false
        } _: { test in
            try test.simulator.script("aa", [.accept.delayed(by: .milliseconds(60))])
            try test.simulator.script("bb", [.goAway(.shutdown)])
            let client = try test.client()
            let earlier = try client.submit(test.push().to("aa"))
            let trigger = try client.submit(test.push().to("bb"))
            let later = try client.submit(test.push().to("cc"))
            try client.run { client in [earlier, trigger, later].allSatisfy { client.closed[$0] != nil } }
            #expect(client.goAways.map(\.lastStream) == [earlier])
            #expect(client.goAways.map(\.debug) == [#"{"reason":"Shutdown"}"#])
            #expect(client.closed[trigger] == .refusedStream)
            #expect(client.closed[later] == .refusedStream)
            #expect(client.responses[earlier]?.status == 200)
        }
    }
}
