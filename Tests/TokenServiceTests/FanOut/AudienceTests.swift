import Broker
import Postgres
import PushModel
import StrictJSON
import TestSupport
import Testing
import TokenServiceSending

@Suite("Whom a notification is for", .serialized, .timeLimit(.minutes(5)))
struct AudienceTests {
    /// Installation n has token n. 1 and 2 are ada's, 3 is grace's, 4 has no user.
    private static func people(_ running: RunningService) async throws -> APITestClient {
        let shop = try await running.client.makeApp()
        try await shop.register(installation(1), user: "ada", token: token(1))
        try await shop.register(installation(2), user: "ada", token: token(2))
        try await shop.register(installation(3), user: "grace", token: token(3))
        try await shop.register(installation(4), user: nil, token: token(4))
        try await running.execute("UPDATE installations SET tags = ARRAY['beta', 'it''s', 'a b'] WHERE id = \(installation(1))")
        try await running.execute("UPDATE installations SET tags = ARRAY['beta', 'muted'] WHERE id = \(installation(3))")
        return shop
    }

    static let targets: [(to: String, expected: Set<Int>)] = [
        (#"{"users":["ada","nobody"]}"#, [1, 2]),
        (#"{"users":["grace","ada"]}"#, [1, 2, 3]),
        (#"{"installations":["\#(installation(2))","\#(installation(4))","\#(installation(9))"]}"#, [2, 4]),
        (#"{"tokens":["\#(token(3))","\#(token(1))","\#(token(8))"]}"#, [1, 3]),
        (#"{"tags":"beta AND NOT muted"}"#, [1]),
        (#"{"tags":"beta OR muted"}"#, [1, 3]),
        (#"{"tags":"NOT beta"}"#, [2, 4]),
        (#"{"tags":"\"it's\" AND \"a b\""}"#, [1]),
        (#"{"all":true}"#, [1, 2, 3, 4]),
    ]

    @Test("Every target finds the devices that are meant and no others") func everyTarget() async throws {
        try await RunningService.run { running in
            let shop = try await Self.people(running)
            for target in Self.targets {
                let sent = try await shop.send(target.to, more: #","lane":"bulk""#)
                #expect(sent.status == 202, "\(target.to): \(sent.json)")
                #expect(sent.json["deliveries"]?.isNull ?? true)
                let id = try #require(sent.json.text("id"))
                let found = try await running.jobs(.bulk) { signal in
                    let job = try PushJob(decoding: try await signal.next().body)
                    #expect(job.notification.description == id)
                    return job.deliveries.map(\.token.hex)
                }
                #expect(found.sorted() == target.expected.map { token($0) }.sorted(), "\(target.to)")
                let status = try await eventually {
                    let status = try await shop.status(id)
                    return status.text("state") == "sending" ? status : nil
                }
                #expect(status["counts"]?.number("total") == Int64(target.expected.count))
            }
        }
    }

    @Test("The state says after the fan-out that the audience is empty", arguments: [#"{"users":["nobody"]}"#, #"{"tags":"no-such-tag"}"#])
    func emptyAudience(to: String) async throws {
        try await RunningService.run { running in
            let shop = try await Self.people(running)
            let id = try #require(try await shop.send(to).json.text("id"))
            let state = try await eventually { () -> String? in
                let state = try await shop.status(id).text("state")
                return state == "accepted" || state == "expanding" ? nil : state
            }
            #expect(state == "no_targets")
        }
    }

    /// Promise 3: what names an installation means its owner as it was accepted.
    @Test(
        "A target does not mean a user who signs in afterwards",
        arguments: [#"{"installations":["\#(installation(1))"]}"#, #"{"tokens":["\#(token(1))"]}"#]
    )
    func laterUser(to: String) async throws {
        try await RunningService.run(.init(without: { $0 is Relay })) { running in
            let shop = try await Self.people(running)
            let sent = try await shop.send(to, more: #","not_before":"\#(RFC3339.text(milliseconds: UnixClock.now() + 600_000))""#)
            #expect(sent.json.text("state") == "scheduled", "\(sent.json)")
            let id = try #require(sent.json.text("id"))
            try await shop.register(installation(1), user: "grace", token: token(1))
            try await running.execute("UPDATE fan_outs SET free_from = now(), due_at = now()")
            try await running.another(.init()) { _ in
                let state = try await eventually { () -> String? in
                    let state = try await shop.status(id).text("state")
                    return ["scheduled", "expanding"].contains(state) ? nil : state
                }
                #expect(state == "no_targets")
            }
        }
    }

    @Test("Each locale gets its variant, and each delivery its own id") func localeVariants() async throws {
        try await RunningService.run { running in
            let shop = try await Self.people(running)
            try await running.execute("UPDATE installations SET locale = 'de-AT' WHERE id = \(installation(1))")
            try await running.execute("UPDATE installations SET locale = 'fr' WHERE id = \(installation(3))")
            let sent = try await shop.send(
                #"{"all":true}"#, more: #","lane":"bulk","locales":{"de":{"payload":{"aps":{"alert":"Hallo"}}}}"#)
            #expect(sent.status == 202, "\(sent.json)")
            let jobs = try await running.jobs(.bulk) { signal in
                try await signal.next(2).map { try PushJob(decoding: $0.body) }
            }
            let german = try #require(jobs.first { String(decoding: $0.payload, as: UTF8.self).contains("Hallo") })
            #expect(german.deliveries.map(\.token.hex) == [token(1)])
            #expect(jobs.flatMap(\.deliveries).count == 4)
            #expect(Set(jobs.flatMap(\.deliveries).map(\.id)).count == 4)
        }
    }
}
