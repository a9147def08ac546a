import Logging
import Observability
import Postgres
import PushModel
import StrictJSON
import Synchronization
import SystemIO
import TestSupport
import Testing
import TokenServiceEvents

@Suite("Webhooks lead to the public internet alone", .serialized, .timeLimit(.minutes(5)))
struct WebhookAddressTests {
    private static func message(_ url: String) -> WebhookMessage.Claimed {
        WebhookMessage.Claimed(
            app: 1, webhook: .random(), id: .random(), body: Array("{}".utf8), attempts: 1, url: url, secrets: [.generate()])
    }

    /// What the resolver makes of a name decides, not how it is written.
    @Test(
        "No name leads to an internal address",
        arguments: [
            "localhost", "127.0.0.1", "127.1", "0x7f.0.0.1", "2130706433", "017700000001", "0", "10.0.0.1", "169.254.169.254", "100.64.0.1",
            "192.168.1.1", "172.16.0.1",
        ])
    func internalNames(_ host: String) async throws {
        try await WebhookReceiver.run { receiver in
            let settings = try WebhookFailureTests.settings([:])
            let clients = WebhookClients(
                settings: settings, addresses: WebhookAddresses(rules: settings.rules), concurrency: 1, logger: Logger(label: "test"))
            let attempt = WebhookAttempt(clients: clients, settings: settings)
            let outcome = await attempt.post(Self.message("https://\(host):\(receiver.port)/"))
            guard outcome.result == .refused, let words = outcome.error else {
                Issue.record("\(outcome)")
                return clients.close()
            }
            #expect(words.hasPrefix("address_not_allowed"))
            #expect(
                await attempt.post(Self.message("http://\(host):\(receiver.port)/"))
                    == .init(.refused, error: "url_not_allowed: \(WebhookURL.rule)"))
            clients.close()
            #expect(receiver.received.waiting.isEmpty)
        }
    }

    /// One address inside among others is enough.
    @Test("The service checks every address of a name") func everyAddress() async throws {
        let settings = try WebhookFailureTests.settings([:])
        let clients = WebhookClients(
            settings: settings,
            addresses: WebhookAddresses(
                rules: settings.rules,
                resolve: { _, port in
                    try SocketAddress.resolve(host: "1.1.1.1", port: port) + SocketAddress.resolve(host: "::ffff:10.0.0.1", port: port)
                }),
            concurrency: 1, logger: Logger(label: "test"))
        let outcome = await WebhookAttempt(clients: clients, settings: settings).post(Self.message("https://mixed.example/"))
        guard outcome.result == .refused else {
            Issue.record("\(outcome)")
            return clients.close()
        }
        clients.close()
    }

    /// The service does not look the name up again: `.invalid` leads nowhere (RFC 6761), and still it reaches the checked address.
    @Test("The connection goes to the address that was checked") func checkedAddress() async throws {
        try await WebhookReceiver.run { receiver in
            let settings = try WebhookFailureTests.settings(["WEBHOOK_INSECURE": "true"])
            let clients = WebhookClients(
                settings: settings,
                addresses: WebhookAddresses(
                    rules: settings.rules,
                    resolve: { _, port in try SocketAddress.resolve(host: "127.0.0.1", port: port) }),
                concurrency: 1, logger: Logger(label: "test"))
            let outcome = await WebhookAttempt(clients: clients, settings: settings).post(
                Self.message("http://rebinding.invalid:\(receiver.port)/x"))
            clients.close()
            #expect(outcome == .init(.delivered, status: 204))
            #expect(try await receiver.received.next().header("host") == "rebinding.invalid:\(receiver.port)")
        }
    }

    /// Nothing listens on the first two addresses; each was checked as the last one was.
    @Test("If an address takes no connection, the service tries the next one") func nextAddress() async throws {
        try await WebhookReceiver.run { receiver in
            let settings = try WebhookFailureTests.settings(["WEBHOOK_INSECURE": "true"])
            let asked = Mutex(0)
            let clients = WebhookClients(
                settings: settings,
                addresses: WebhookAddresses(
                    rules: settings.rules,
                    resolve: { _, port in
                        asked.withLock { $0 += 1 }
                        return try ["127.0.0.2", "127.0.0.3", "127.0.0.1"].flatMap { try SocketAddress.resolve(host: $0, port: port) }
                    }),
                concurrency: 1, logger: Logger(label: "test"))
            let attempt = WebhookAttempt(clients: clients, settings: settings)
            let message = Self.message("http://several.invalid:\(receiver.port)/x")
            for _ in 1...2 {
                #expect(await attempt.post(message) == .init(.delivered, status: 204))
                #expect(try await receiver.received.next().header("host") == "several.invalid:\(receiver.port)")
            }
            clients.close()
            #expect(asked.withLock { $0 } == 1, "the address that answered is kept")
        }
    }

    @Test("If no address takes a connection, the attempt fails once") func noConnection() async throws {
        let settings = try WebhookFailureTests.settings(["WEBHOOK_INSECURE": "true"])
        let clients = WebhookClients(
            settings: settings,
            addresses: WebhookAddresses(
                rules: settings.rules,
                resolve: { _, port in try ["127.0.0.2", "127.0.0.3"].flatMap { try SocketAddress.resolve(host: $0, port: port) } }),
            concurrency: 1, logger: Logger(label: "test"))
        let port = try FreePorts.choose(1)[0]
        let outcome = await WebhookAttempt(clients: clients, settings: settings).post(Self.message("http://several.invalid:\(port)/x"))
        clients.close()
        guard outcome.result == .failed, outcome.status == nil, let error = outcome.error else {
            Issue.record("\(outcome)")
            return
        }
        #expect(error.hasPrefix("connection: "))
    }

    @Test("The service does not follow redirects") func unfollowedRedirect() async throws {
        try await WebhookReceiver.run { target in
            let location = target.url
            try await WebhookReceiver.run({ _ in .status(302, headers: [("location", location)]) }) { receiver in
                let settings = try WebhookFailureTests.settings(["WEBHOOK_INSECURE": "true"])
                let clients = WebhookClients(
                    settings: settings, addresses: WebhookAddresses(rules: settings.rules), concurrency: 1, logger: Logger(label: "test"))
                let outcome = await WebhookAttempt(clients: clients, settings: settings).post(Self.message(receiver.url))
                clients.close()
                #expect(outcome == .init(.failed, status: 302, error: "redirect_not_followed"))
                #expect(target.received.waiting.isEmpty)
            }
        }
    }

    /// The owner sees the refusal, and the settings for development allow no other machine than this one.
    @Test("A refusal is visible in the message and in the metrics") func visibleRefusal() async throws {
        try await RunningService.run(WebhookWorld.options()) { running in
            let world = try await WebhookWorld(running, url: "http://127.0.0.1/", events: ["*"])
            // As if its name had led elsewhere when it was made.
            try await running.execute("UPDATE webhooks SET url = 'http://10.0.0.1/'")
            let message = try await world.message(try await world.ping(), "failed")
            #expect(message.text("last_error")?.hasPrefix("address_not_allowed") == true)
            #expect(running.metrics.render().contains(#"push_token_service_webhook_attempts_total{result="refused"}"#))
        }
    }

    /// By the rule of the sending side: when it is made, and when it is changed.
    @Test("The service refuses a private address at once", arguments: [false, true]) func privateAddress(isInsecure: Bool) async throws {
        try await RunningService.run(isInsecure ? WebhookWorld.options() : .init()) { running in
            _ = try await running.client.makeApp()
            let admin = try await running.client.makeKey(app: "shop", scopes: ["admin"])
            let id = try #require(try await WebhookWorld.make(url: "https://1.1.1.1/", events: ["*"], admin).json.text("id"))
            for host in ["10.0.0.1", "169.254.169.254", "192.168.1.1", "0xa.0.0.1"] + (isInsecure ? [] : ["127.0.0.1", "localhost"]) {
                let (made, changed) = (
                    try await admin.post("/v1/apps/shop/webhooks", #"{"url":"https://\#(host)/","events":["*"]}"#),
                    try await admin.call("PATCH", "/v1/apps/shop/webhooks/\(id)", #"{"url":"https://\#(host)/"}"#)
                )
                for answer in [made, changed] {
                    #expect(answer.status == 400 && answer.problems == ["/url address_not_allowed"], "\(host)")
                    #expect(String(decoding: answer.bytes, as: UTF8.self).contains("WEBHOOK_INSECURE=true"))
                }
            }
            #expect(try await admin.get("/v1/apps/shop/webhooks/\(id)").json.text("url") == "https://1.1.1.1/")
            let local = try await admin.post("/v1/apps/shop/webhooks", #"{"url":"https://localhost/","events":["*"]}"#)
            #expect(local.status == (isInsecure ? 201 : 400))
            // A name that cannot be resolved now is checked when it can be.
            #expect(try await WebhookWorld.make(url: "https://example.invalid/", events: ["*"], admin).status == 201)
        }
    }

    @Test("With the settings of production, the service refuses plain HTTP at once") func plainHTTP() async throws {
        try await RunningService.run { running in
            _ = try await running.client.makeApp()
            let admin = try await running.client.makeKey(app: "shop", scopes: ["admin"])
            for url in ["http://hooks.example.com/", "https://[::1]/", "https://user@example.com/"] {
                let answer = try await admin.post("/v1/apps/shop/webhooks", #"{"url":"\#(url)","events":["*"]}"#)
                #expect(answer.problems == ["/url invalid_url"])
            }
            let answer = try await admin.post("/v1/apps/shop/webhooks", #"{"url":"https://example.com/","events":["*","token"]}"#)
            #expect(answer.problems == ["/events/1 unsupported_value"])
        }
    }
}
