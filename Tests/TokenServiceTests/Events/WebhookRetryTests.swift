import Configuration
import Logging
import Observability
import Postgres
import PushModel
import StrictJSON
import TestSupport
import Testing
import TokenServiceEvents

@Suite("Webhooks: when they are tried again, and what is never said", .serialized, .timeLimit(.minutes(5)))
struct WebhookRetryTests {
    @Test("Retry-After makes a wait longer, never shorter, and adds no attempts") func longerWait() throws {
        let settings = try WebhookFailureTests.settings(["WEBHOOK_RETRY_SECONDS": "100,200"])
        #expect((100...120).contains(try #require(settings.delay(after: 1)) / .seconds(1)))
        #expect((100...120).contains(try #require(settings.delay(after: 1, retryAfter: .seconds(5))) / .seconds(1)))
        #expect((1000...1200).contains(try #require(settings.delay(after: 2, retryAfter: .seconds(1000))) / .seconds(1)))
        #expect(settings.delay(after: 3, retryAfter: .seconds(1000)) == nil)
    }

    @Test("The service leaves a receiver alone that asks for it", arguments: [429, 503]) func patientRetry(status: Int) async throws {
        try await WebhookReceiver.run({ _ in .status(status, headers: [("retry-after", "1800")]) }) { receiver in
            try await RunningService.run(WebhookWorld.options()) { running in
                let world = try await WebhookWorld(running, url: receiver.url, events: ["*"])
                let ping = try await world.ping()
                _ = try await receiver.received.next()
                // Without it the next attempt would be due at once.
                let due: PostgresQuery =
                    "SELECT count(*) FROM webhook_messages WHERE last_status IS NOT NULL AND due_at > now() + interval '29 minutes'"
                _ = try await eventually { try await running.count(due) == 1 ? true : nil }
                #expect(try await world.message(ping, "pending").number("attempts") == 1)
            }
        }
    }

    @Test("The service shows a secret when it makes it and never again") func shownOnce() async throws {
        try await RunningService.run(WebhookWorld.options()) { running in
            let world = try await WebhookWorld(running, url: "http://127.0.0.1:9/", events: ["*"])
            let rotated = try await world.admin.post("\(world.path)/rotate", #"{"overlap_seconds":3600}"#)
            let secrets = [world.secret, try #require(rotated.json.text("secret"))]
            _ = try await world.ping()
            let answers = [
                try await world.webhook(), try await world.admin.get(WebhookWorld.path).json,
                try await world.admin.get("\(world.path)/messages").json,
                try await world.admin.call("PATCH", world.path, #"{"description":"d"}"#).json,
                try await world.admin.post("\(world.path)/redeliver", #"{"failed":true}"#).json,
            ]
            for secret in secrets {
                let bare = secret.dropFirst(WebhookSecret.prefix.count)
                #expect(answers.allSatisfy { !$0.written.contains(bare) })
                #expect(!running.metrics.render().contains(bare))
            }
            #expect(answers.allSatisfy { !$0.written.contains("secret\":") })
        }
    }

    /// Whatever holds one may be put into a log line as a whole.
    @Test("A value that holds a secret does not show it") func hiddenSecret() {
        let secret = WebhookSecret.generate()
        let message = WebhookMessage.Claimed(
            app: 1, webhook: .random(), id: .random(), body: [], attempts: 1, url: "https://example.com/", secrets: [secret])
        let bytes = secret.bytes.prefix(4).map { "\($0)" }.joined(separator: ", ")
        var dumped = ""
        dump(message, to: &dumped)
        for text in ["\(secret)", "\(message)", String(reflecting: message), dumped] {
            #expect(!text.contains(bytes) && !text.contains(secret.text))
        }
    }
}
