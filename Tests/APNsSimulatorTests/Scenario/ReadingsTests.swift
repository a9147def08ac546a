import Foundation
import OpenSSL
import StrictJSON
import TestIdentity
import Testing

@testable import APNsSimulator

/// The places where Apple's pages, its engineers and other clients disagree (docs/apns.md).
@Suite("A scenario chooses a reading of APNs", .timeLimit(.minutes(5)))
struct ReadingsTests {
    private static let tooMany = #"{"reason":"TooManyProviderTokenUpdates"}"#

    /// A scenario with these readings and no faults.
    static func scenario(_ readings: String) throws -> Scenario {
        try Scenario(text: #"{"v":1,"name":"readings","readings":{\#(readings)}}"#)
    }

    /// A second key of the team, good in the sandbox alone.
    private static let second = Result { try ES256PrivateKey.generate() }

    private func withTwoKeys(_ readings: String, _ body: (TestSimulator) async throws -> Void) async throws {
        let key = try Self.second.get()
        try await withSimulator { configuration in
            configuration.keys.append(
                ProviderKey(teamID: TestIdentity.teamID, keyID: "KEY0000002", publicKey: key.publicKey, environments: [.sandbox]))
            configuration.scenario = try Self.scenario(readings)
        } _: { test in
            try await body(test)
        }
    }

    private func second(_ test: TestSimulator) throws -> TestPush {
        try TestPush().with("authorization", Self.second.get().bearer(keyID: "KEY0000002", issuedAt: test.clock.now / 1000))
    }

    @Test("A team has one token, whatever the key, the environment and the connection; twenty minutes later another one may come")
    func team() async throws {
        try await withTwoKeys(#""token_updates":"team""#) { test in
            let (production, sandbox, another) = (try test.client(), try test.client(.sandbox), try test.client())
            let (first, second) = (test.push(), try second(test))
            #expect(try production.send(first).status == 200)
            #expect(try another.send(first).status == 200, "any number of connections may show the team's token")
            test.clock.advance(by: .seconds(20 * 60 - 1))
            let refused = try sandbox.send(second)
            #expect(refused.status == 429)
            #expect(refused.body == Self.tooMany)
            test.clock.advance(by: .seconds(1))
            #expect(try sandbox.send(second).status == 200)
            #expect(try production.send(first).body == Self.tooMany, "the team has another token now")
            #expect(try another.send(first).body == Self.tooMany)
            test.clock.advance(by: .seconds(20 * 60))
            #expect(try production.send(first).status == 200)
            #expect(try another.send(first).status == 200)
            #expect(try sandbox.send(second).body == Self.tooMany)
        }
    }

    @Test("Only new tokens count: those that the team has shown stay good beside each other")
    func teamNew() async throws {
        try await withTwoKeys(#""token_updates":"team_new""#) { test in
            let (production, sandbox) = (try test.client(), try test.client(.sandbox))
            let (first, second) = (test.push(), try second(test))
            #expect(try production.send(first).status == 200)
            #expect(try sandbox.send(second).body == Self.tooMany)
            test.clock.advance(by: .seconds(20 * 60))
            for _ in 0..<2 {
                #expect(try sandbox.send(second).status == 200)
                #expect(try production.send(first).status == 200)
            }
            let third = try TestPush().with("authorization", test.bearer())
            #expect(try test.client().send(third).body == Self.tooMany)
        }
    }

    @Test("Two teams do not count together")
    func twoTeams() async throws {
        let other = try ES256PrivateKey.generate()
        try await withSimulator { configuration in
            configuration.keys.append(ProviderKey(teamID: "TEAM000002", keyID: "KEY0000002", publicKey: other.publicKey))
            configuration.scenario = try Self.scenario(#""token_updates":"team""#)
        } _: { test in
            let stranger = try TestPush().with(
                "authorization", other.bearer(teamID: "TEAM000002", keyID: "KEY0000002", issuedAt: test.clock.now / 1000))
            #expect(try test.client().send(test.push()).status == 200)
            #expect(try test.client().send(stranger).status == 200)
        }
    }

    @Test(
        "A connection that got the 429 answers nothing else any more, not even to the token that was good before", arguments: [false, true])
    func refusedConnection(countsByTeam: Bool) async throws {
        try await withTwoKeys(#""token_refusal":"connection","token_updates":"\#(countsByTeam ? "team" : "connection")""#) { test in
            let client = try test.client()
            let first = test.push()
            #expect(try client.send(first).status == 200)
            #expect(try client.send(TestPush().with("authorization", test.bearer())).body == Self.tooMany)
            #expect(try client.send(first).body == Self.tooMany)
            test.clock.advance(by: .seconds(21 * 60))
            #expect(try client.send(first).body == Self.tooMany)
            #expect(try test.client().send(first).status == 200, "a new connection is none of its business")
        }
    }

    @Test("Another scenario's readings hold at once, also for connections and tokens from before")
    func changes() async throws {
        try await withTwoKeys("") { test in
            let (production, sandbox) = (try test.client(), try test.client(.sandbox))
            let (first, second) = (test.push(), try second(test))
            #expect(try production.send(first).status == 200)
            #expect(try sandbox.send(second).status == 200)
            try test.simulator.play(Self.scenario(#""token_updates":"team_new""#))
            #expect(try production.send(first).status == 200)
            #expect(try sandbox.send(second).status == 200)
            try test.simulator.play(Self.scenario(#""token_updates":"team""#))
            #expect(try production.send(first).body == Self.tooMany, "the other one came last")
            #expect(try sandbox.send(second).status == 200)
            try test.simulator.playNothing()
            #expect(try production.send(first).status == 200)
        }
    }

    // MARK: Devices that are off

    private func alert(_ test: TestSimulator, _ title: String, topic: String = TestPush.topic, collapse: String? = nil) -> TestPush {
        test.push().with("apns-topic", topic).with("apns-collapse-id", collapse).body(#"{"aps":{"alert":{"title":"\#(title)"}}}"#)
    }

    @Test(
        "A device that is off keeps one push for each topic, one for each app, or all but those with the same collapse id",
        arguments: [
            ("topic", ["six", "call"]), ("app", ["call"]), ("collapse_id", ["one", "three", "five", "six", "call"]),
        ])
    func stored(reading: String, shown: [String]) async throws {
        try await withSimulator {
            $0.scenario = try Self.scenario(#""stored":"\#(reading)""#)
        } _: { test in
            try test.simulator.install(TestPush.token)
            try test.simulator.setOnline(false, TestPush.token)
            let client = try test.client()
            let pushes = [
                alert(test, "one"), alert(test, "two", collapse: "a"), alert(test, "three"), alert(test, "four", collapse: "b"),
                alert(test, "five", collapse: "a"), alert(test, "six", collapse: "b"),
                alert(test, "call", topic: TestPush.topic + ".voip"),
            ]
            for push in pushes { #expect(try client.send(push).status == 200) }
            #expect(try test.simulator.device(TestPush.token)?.storedCount == shown.count)
            try test.simulator.setOnline(true, TestPush.token)
            #expect(try test.simulator.inbox(TestPush.token).map(\.content.title) == shown)
        }
    }

    @Test("A device that keeps every push keeps the newest thousand")
    func storedBound() async throws {
        try await withSimulator {
            $0.scenario = try ReadyScenario.named("offline-queue")
        } _: { test in
            try test.simulator.install(TestPush.token)
            try test.simulator.setOnline(false, TestPush.token)
            let client = try test.client()
            for number in 0..<1003 { #expect(try client.send(alert(test, "\(number)")).status == 200) }
            #expect(try test.simulator.device(TestPush.token)?.storedCount == 1000)
            try test.simulator.setOnline(true, TestPush.token)
            #expect(try test.simulator.inbox(TestPush.token).first?.content.title == "3")
        }
    }

    // MARK: Live Activities

    @Test("A start is answered 200, and no activity appears; one by the app still does")
    func lostStart() async throws {
        try await withSimulator {
            $0.scenario = try ReadyScenario.named("lost-starts")
        } _: { test in
            try ActivityPushes.install(test)
            let client = try test.client()
            #expect(try client.send(ActivityPushes.start(test)).status == 200)
            #expect(ActivityPushes.result(test) == .startLost)
            #expect(try test.simulator.activities(TestPush.token).isEmpty)
            #expect(try test.simulator.inbox(TestPush.token).isEmpty)
            let own = ActivityPushes.push(test, TestPush.token, ["event": #""start""#, "timestamp": "1", "content-state": "{}"])
            #expect(try client.send(own).status == 200)
            #expect(ActivityPushes.result(test) == .startLost)
            #expect(try test.simulator.startActivity(ActivityPushes.type, on: TestPush.token) != nil)
            try test.simulator.playNothing()
            #expect(try client.send(ActivityPushes.start(test)).status == 200)
            #expect(ActivityPushes.result(test) == .started)
        }
    }

    // MARK: Words

    @Test(
        "An error names its place",
        arguments: [
            (#""stored":"two""#, "/readings/stored: unsupported_value"), (#""tokens":"team""#, "/readings/tokens: unknown_field"),
            (#""starts":1"#, "/readings/starts: wrong_type"),
        ])
    func wrong(_ readings: String, _ place: String) {
        let error = #expect(throws: SimulatorError.self) { try Self.scenario(readings) }
        #expect(error?.description.contains(place) == true, "\(error?.description ?? "")")
    }

    @Test("The control API sets and shows the readings")
    func control() async throws {
        try await withControl { control in
            let set = try await control.call("PUT", "/v1/scenario", #"{"v":1,"name":"mine","readings":{"stored":"app"}}"#)
            let expected = ["token_updates": "connection", "token_refusal": "request", "stored": "app", "starts": "shown"]
            for (field, value) in expected { #expect(set.json?["readings"]?[field]?.stringValue == value) }
            let ready = try await control.call("PUT", "/v1/scenario", #"{"ready":"team-tokens"}"#)
            #expect(ready.json?["readings"]?["token_updates"]?.stringValue == "team")
        }
    }

    @Test("The README has a row for each value, in the words of --help")
    func words() throws {
        let file = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "../../../Services/APNsSimulator/README.md")
        let text = try String(contentsOf: file, encoding: .utf8)
        #expect(text.contains(Readings.rows.joined(separator: "\n")), "expected:\n\(Readings.rows.joined(separator: "\n"))")
    }
}
