import Logging
import PushModel
import SystemIO
import TestSupport
import Testing
import TokenServiceApps
import TokenServiceEvents

@Suite("Clients of webhooks", .timeLimit(.minutes(5)))
struct WebhookClientTests {
    private static func message(_ url: String, app: App.ID = 1) -> WebhookMessage.Claimed {
        WebhookMessage.Claimed(
            app: app, webhook: .random(), id: .random(), body: Array("{}".utf8), attempts: 1, url: url, secrets: [.generate()])
    }

    /// One path of the receiver never answers. The message there has every connection of its webhook.
    @Test("A slow webhook delays no other one at the same host") func slowPath() async throws {
        try await WebhookReceiver.run({ $0.path == "/slow" ? .silence : .ok }) { receiver in
            let settings = try WebhookFailureTests.settings(["WEBHOOK_INSECURE": "true", "WEBHOOK_TIMEOUT_SECONDS": "60"])
            let clients = WebhookClients(
                settings: settings, addresses: WebhookAddresses(rules: settings.rules), concurrency: 1, logger: Logger(label: "test"))
            let attempt = WebhookAttempt(clients: clients, settings: settings)
            let (slow, quick) = (
                Self.message("http://127.0.0.1:\(receiver.port)/slow"), Self.message("http://127.0.0.1:\(receiver.port)/quick")
            )
            try await withThrowingTaskGroup(of: Void.self) { group in
                group.addTask { _ = await attempt.post(slow) }
                let first = try await receiver.received.next()
                #expect(first.path == "/slow")
                #expect(await attempt.post(quick) == .init(.delivered, status: 204))
                group.cancelAll()
            }
            clients.close()
        }
    }

    private static func clients() throws -> WebhookClients {
        let settings = try WebhookFailureTests.settings([:])
        return WebhookClients(
            settings: settings,
            addresses: WebhookAddresses(
                rules: settings.rules, resolve: { _, port in try SocketAddress.resolve(host: "1.1.1.1", port: port) }),
            concurrency: 1, logger: Logger(label: "test"))
    }

    private static func url(_ port: Int) throws -> WebhookURL {
        try #require(WebhookURL("https://several.invalid:\(port)/", allowsHTTP: false))
    }

    @Test("A webhook whose URL changes has one client") func changedURL() async throws {
        let (clients, webhook) = (try Self.clients(), PushID.random())
        for port in 1...200 { try await clients.with(Self.url(port), of: webhook, app: 1) { _ in } }
        #expect(clients.count == 1)
        clients.close()
    }

    /// Its webhooks are made and removed again and again. The other app's client stays.
    @Test("An app has clients up to its share, all apps up to the capacity") func boundedClients() async throws {
        let (clients, other) = (try Self.clients(), PushID.random())
        try await clients.with(Self.url(443), of: other, app: 2) { _ in }
        for port in 1...200 { try await clients.with(Self.url(port), of: .random(), app: 1) { _ in } }
        #expect(clients.count == WebhookClients.share + 1)
        for app in 3..<App.ID(WebhookClients.capacity + 100) {
            try await clients.with(Self.url(443), of: .random(), app: app) { _ in }
            // It is used, so it is not the oldest.
            try await clients.with(Self.url(443), of: other, app: 2) { _ in }
        }
        #expect(clients.count == WebhookClients.capacity)
        clients.close()
    }
}
