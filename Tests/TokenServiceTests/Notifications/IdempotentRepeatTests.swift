import OpenSSL
import Postgres
import PushModel
import StrictJSON
import TestSupport
import Testing
import TokenServiceSending

@Suite("A repeat with the same Idempotency-Key says what the first answer said", .serialized, .timeLimit(.minutes(5)))
struct IdempotentRepeatTests {
    private static let path = "/v1/apps/shop/notifications"
    private static let key = ["idempotency-key": "order-1"]

    @Test("Also when its not_before has passed meanwhile; and only within its time, for its body and its caller")
    func afterItsTime() async throws {
        try await RunningService.run(.init(without: { $0 is Relay })) { running in
            let shop = try await running.client.makeApp()
            let first = try await shop.send(
                #"{"user":"ada"}"#, more: #","not_before":"\#(RFC3339.text(milliseconds: UnixClock.now() + 3_600_000))""#, headers: Self.key
            )
            #expect(first.status == 202)
            // As if an hour had passed: what was accepted said a time that is over now.
            let passed = #"{"to":{"user":"ada"},"payload":{"aps":{"alert":"hello"}},"not_before":"2026-01-01T00:00:00Z"}"#
            #expect(try await shop.post(Self.path, passed, headers: Self.key).status == 422)
            try await running.execute(
                "UPDATE idempotency_records SET fingerprint = \(Digest.sha256(Array(passed.utf8)))")
            let repeated = try await shop.post(Self.path, passed, headers: Self.key)
            #expect(repeated.status == 202 && repeated.bytes == first.bytes)
            #expect(repeated.header("idempotency-replay") == "true" && repeated.header("location") == first.header("location"))
            #expect(try await shop.post(Self.path, passed).status == 400)
            #expect(try await shop.post(Self.path, passed, headers: ["idempotency-key": "order-2"]).status == 400)
            #expect(try await shop.post(Self.path, "{", headers: Self.key).status == 422)
            let colleague = try await running.client.makeKey(app: "shop", scopes: ["send"])
            #expect(try await colleague.post(Self.path, passed, headers: Self.key).status == 400)
            try await running.execute("UPDATE idempotency_records SET day = day - interval '48 hours'")
            #expect(try await shop.post(Self.path, passed, headers: Self.key).status == 400)
            #expect(try await running.count("SELECT count(*) FROM notifications") == 1)
        }
    }

    @Test("Warnings included: those of then, and none of what has become doubtful since") func warnings() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            try await shop.register(installation(1), user: "ada", token: token(1))
            let body = #"{"to":{"user":"ada"},"content":{"content_available":true}}"#
            var first: [APITestClient.Answer] = []
            for number in 1...4 { first.append(try await shop.post(Self.path, body, headers: ["idempotency-key": "\(number)"])) }
            let warned = first.map { $0.json["warnings"]?.arrayValue?.contains { $0.text("code") == "frequent_background" } }
            #expect(warned == [false, false, false, true])
            for number in 1...4 {
                let again = try await shop.post(Self.path, body, headers: ["idempotency-key": "\(number)"])
                #expect(again.header("idempotency-replay") == "true" && again.bytes == first[number - 1].bytes, "\(number)")
            }
        }
    }
}
