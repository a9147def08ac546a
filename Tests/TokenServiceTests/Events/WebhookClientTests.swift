import Logging
import PushModel
import TestSupport
import Testing
import TokenService

@Suite("Clients of webhooks", .timeLimit(.minutes(5)))
struct WebhookClientTests {
    private static func message(_ url: String) -> WebhookMessage.Claimed {
        WebhookMessage.Claimed(
            webhook: .random(), id: .random(), body: Array("{}".utf8), attempts: 1, url: url, secrets: [.generate()])
    }

    /// One path of the receiver never answers. The message there has every connection of its webhook.
    @Test("A slow webhook delays no other one at the same host") func slowPath() async throws {
        try await WebhookReceiver.run({ $0.path == "/slow" ? .silence : .ok }) { receiver in
            let settings = try WebhookFailureTests.settings(["WEBHOOK_INSECURE": "true", "WEBHOOK_TIMEOUT_SECONDS": "60"])
            let clients = WebhookClients(settings: settings, concurrency: 1, logger: Logger(label: "test"))
            let attempt = WebhookAttempt(clients: clients, settings: settings)
            let (slow, quick) = (
                Self.message("http://127.0.0.1:\(receiver.port)/slow"), Self.message("http://127.0.0.1:\(receiver.port)/quick")
            )
            try await withThrowingTaskGroup(of: Void.self) { group in
                group.addTask { _ = await attempt.post(slow) }
                #expect(try await receiver.received.next().path == "/slow")
                #expect(await attempt.post(quick) == .init(.delivered, status: 204))
                group.cancelAll()
            }
            clients.close()
        }
    }
}
