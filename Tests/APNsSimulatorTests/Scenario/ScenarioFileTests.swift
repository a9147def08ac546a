import APNsSimulator
import StrictJSON
import SystemIO
import Testing

@Suite("Scenario files are read strictly, and ready-made ones are files", .timeLimit(.minutes(5)))
struct ScenarioFileTests {
    @Test("Every ready-made scenario is a valid file with its name", arguments: ReadyScenario.allCases)
    func ready(_ ready: ReadyScenario) throws {
        let scenario = try Scenario(text: ready.text)
        #expect(scenario.name == ready.rawValue)
        #expect(!scenario.about.isEmpty)
    }

    @Test(
        "Every ready-made scenario with rules for requests applies them",
        arguments: ReadyScenario.allCases.filter {
            ![.calm, .distant, .brokenTLS, .regionFailover, .teamTokens, .offlineQueue, .lostStarts].contains($0)
        })
    func strikes(_ ready: ReadyScenario) async throws {
        try await withSimulator {
            $0.scenario = try ReadyScenario.named(ready.rawValue)
            $0.streamGate = false
        } _: { test in
            test.clock.advance(by: .seconds(16))
            func struck() -> Int64 { test.simulator.performance?.strikes.map { Int64($0.count) }.reduce(0, +) ?? 0 }
            for round in 1...40 where struck() == 0 {
                do {
                    let client = try test.client()
                    for number in 0..<25 { _ = try client.submit(test.push().to("aabb" + String(1000 + 25 * round + number))) }
                    try client.poll()
                    _ = await test.simulator.journal(reaching: 25 * round, timeout: .seconds(1))
                } catch let error as SystemError where error.operation != "connect" {
                    // Some scenarios cut the connection on purpose.
                    continue
                }
            }
            #expect(struck() > 0)
        }
    }

    @Test("An error for an unknown name lists the known ones")
    func unknownName() {
        let error = #expect(throws: SimulatorError.self) { try ReadyScenario.named("bad-hair-day") }
        #expect(error?.description.contains("bad-day, slow, outage") == true)
    }

    @Test(
        "An error names its place in the file",
        arguments: [
            ("{", "line 1, column 2"),
            ("[]", "/: wrong_type"),
            (#"{"v":2,"name":"x"}"#, "/v: out_of_range"),
            (#"{"v":1}"#, "/name: missing"),
            (#"{"v":1,"name":"x","rules":[]}"#, "/rules: unknown_field"),
            (#"{"v":1,"name":"x","requests":[{}]}"#, "/requests/0/do: missing"),
            (#"{"v":1,"name":"x","requests":[{"do":[]}]}"#, "/requests/0/do: too_short"),
            (#"{"v":1,"name":"x","requests":[{"do":[{"action":"dance"}]}]}"#, "/requests/0/do/0/action: unsupported_value"),
            (#"{"v":1,"name":"x","requests":[{"do":[{"action":"answer"}]}]}"#, "/requests/0/do/0/status: missing"),
            (#"{"v":1,"name":"x","requests":[{"do":[{"action":"silence","status":200}]}]}"#, "/requests/0/do/0/status: unknown_field"),
            (#"{"v":1,"name":"x","requests":[{"share":0,"do":[{"action":"silence"}]}]}"#, "/requests/0/share: out_of_range"),
            (#"{"v":1,"name":"x","requests":[{"share":"half","do":[{"action":"silence"}]}]}"#, "/requests/0/share: wrong_type"),
            (#"{"v":1,"name":"x","requests":[{"from_ms":5,"until_ms":5,"do":[{"action":"silence"}]}]}"#, "/requests/0/until_ms"),
            (#"{"v":1,"name":"x","requests":[{"positions":[1,0],"do":[{"action":"silence"}]}]}"#, "/requests/0/positions/1"),
            (#"{"v":1,"name":"x","requests":[{"tokens":["zz"],"do":[{"action":"silence"}]}]}"#, "/requests/0/tokens/0"),
            (#"{"v":1,"name":"x","requests":[{"push_types":["fax"],"do":[{"action":"silence"}]}]}"#, "/requests/0/push_types/0"),
            (#"{"v":1,"name":"x","requests":[{"on":["push","pull"],"do":[{"action":"silence"}]}]}"#, "/requests/0/on/1: unsupported_value"),
            (#"{"v":1,"name":"x","requests":[{"on":[],"do":[{"action":"silence"}]}]}"#, "/requests/0/on: too_short"),
            (#"{"v":1,"name":"x","requests":[{"on":"push","do":[{"action":"silence"}]}]}"#, "/requests/0/on: wrong_type"),
            (#"{"v":1,"name":"x","requests":[{"do":[{"action":"late"}]}]}"#, "/requests/0/do/0/delay: missing"),
            (
                #"{"v":1,"name":"x","requests":[{"do":[{"action":"late","delay":{"percentiles":[[50,9],[99,3]]}}]}]}"#,
                "/requests/0/do/0/delay/percentiles"
            ),
            (
                #"{"v":1,"name":"x","requests":[{"do":[{"action":"late","delay":{"from_ms":9,"to_ms":3}}]}]}"#,
                "/requests/0/do/0/delay/to_ms"
            ),
            (#"{"v":1,"name":"x","requests":[{"do":[{"action":"goaway","last_stream":"mine"}]}]}"#, "/requests/0/do/0/last_stream"),
            (#"{"v":1,"name":"x","requests":[{"do":[{"action":"goaway","reason":"a","text":"b"}]}]}"#, "/requests/0/do/0/text"),
            (#"{"v":1,"name":"x","connections":[{"do":[{"action":"answer","status":500}]}]}"#, "/connections/0/do/0/action"),
            (#"{"v":1,"name":"x","events":[{"action":"close"}]}"#, "/events/0/at_ms: missing"),
            (#"{"v":1,"name":"x","events":[{"at_ms":1,"action":"goaway","last_stream":"this"}]}"#, "/events/0/last_stream"),
        ])
    func wrong(_ text: String, _ place: String) {
        let error = #expect(throws: SimulatorError.self) { try Scenario(text: text) }
        #expect(error?.code == .scenario)
        #expect(error?.description.contains(place) == true, "\(error?.description ?? "")")
    }

    @Test("The control API sets, shows, lists and ends a scenario at run time")
    func control() async throws {
        try await withControl { control in
            let client = try control.test.client()
            #expect(try await control.call("GET", "/v1/scenario").json?["name"]?.stringValue == "calm")
            let set = try await control.call(
                "PUT", "/v1/scenario",
                #"{"v":1,"name":"mine","seed":3,"requests":[{"name":"all down","do":[{"action":"answer","status":503}]}]}"#)
            #expect(set.status == 200)
            #expect(set.json?["seed"]?.integerValue == 3)
            // Scenarios reach the connections like commands.
            control.test.simulator.setStreams(50)
            _ = try client.send(control.test.push())
            try client.run { $0.limits.contains(50) || $0.responses.values.contains { $0.status == 503 } }
            #expect(try client.send(control.test.push()).status == 503)
            let read = try await control.call("GET", "/v1/scenario").json
            #expect(read?["rules"]?[0]?["name"]?.stringValue == "all down")
            #expect((read?["rules"]?[0]?["struck"]?.integerValue ?? 0) >= 1)
            #expect(try await control.call("DELETE", "/v1/scenario").status == 204)
            #expect(try await control.call("GET", "/v1/scenario").json?["name"]?.stringValue == "calm")
            let ready = try await control.call("PUT", "/v1/scenario", #"{"ready":"slow","seed":8}"#)
            #expect(ready.json?["name"]?.stringValue == "slow")
            #expect(ready.json?["seed"]?.integerValue == 8)
            let listed = try await control.call("GET", "/v1/scenarios").json?["scenarios"]?.arrayValue
            #expect(listed?.compactMap { $0["name"]?.stringValue } == ReadyScenario.allCases.map(\.rawValue))
            let unknown = try await control.call("PUT", "/v1/scenario", #"{"ready":"x"}"#)
            #expect(unknown.status == 400)
            #expect(unknown.json?["errors"]?[0]?["pointer"]?.stringValue == "/ready")
            let wrong = try await control.call("PUT", "/v1/scenario", #"{"v":1,"name":"x","requests":[{"do":[{"action":"fly"}]}]}"#)
            #expect(wrong.json?["errors"]?[0]?["pointer"]?.stringValue == "/requests/0/do/0/action")
        }
    }
}
