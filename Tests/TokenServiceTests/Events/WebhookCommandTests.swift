import ArgumentParser
import StrictJSON
import TestSupport
import Testing
import TokenServiceEvents

@testable import PushCtl

@Suite("pushctl webhooks, against a service", .serialized, .timeLimit(.minutes(5)))
struct WebhookCommandTests {
    private static func run<Command: AsyncParsableCommand>(_: Command.Type, _ arguments: [String]) async throws {
        var command = try Command.parse(arguments)
        try await command.run()
    }

    @Test("pushctl makes, tries, changes and deletes a webhook") func webhookLife() async throws {
        try await WebhookReceiver.run { receiver in
            try await RunningService.run(WebhookWorld.options()) { running in
                _ = try await running.client.makeApp()
                let admin = try await running.client.makeKey(app: "shop", scopes: ["admin"])
                let key = try TemporaryFile(try #require(admin.key))
                defer { key.remove() }
                let connection = ["--url", "http://127.0.0.1:\(running.client.port)", "--key-file", key.path]
                try await Self.run(
                    WebhooksCommand.Create.self, ["shop", receiver.url, "--events", "token.*,notification.completed"] + connection)
                let made = try await admin.get(WebhookWorld.path).json["webhooks"]?.arrayValue ?? []
                let id = try #require(made.first?.text("id"))
                #expect(made.first?["events"]?.arrayValue?.compactMap(\.stringValue) == ["token.*", "notification.completed"])
                #expect(made.first?["secret"] == nil)
                try await Self.run(WebhooksCommand.Ping.self, ["shop", id] + connection)
                let ping = try await receiver.received.next().id
                try await Self.run(WebhooksCommand.Messages.self, ["shop", id, "--state", "delivered"] + connection)
                try await Self.run(WebhooksCommand.Redeliver.self, ["shop", id, "--message", ping] + connection)
                #expect(try await receiver.received.next().id == ping)
                try await Self.run(WebhooksCommand.Rotate.self, ["shop", id, "--overlap-seconds", "60"] + connection)
                try await Self.run(WebhooksCommand.Update.self, ["shop", id, "--disable"] + connection)
                #expect(try await admin.get("\(WebhookWorld.path)/\(id)").json.text("disabled_reason") == "by_request")
                await #expect(throws: CommandFailure.self) { try await Self.run(WebhooksCommand.Ping.self, ["shop", id] + connection) }
                try await Self.run(WebhooksCommand.List.self, ["shop"] + connection)
                try await Self.run(WebhooksCommand.Delete.self, ["shop", id] + connection)
                #expect(try await admin.get("\(WebhookWorld.path)/\(id)").status == 404)
            }
        }
    }

    @Test("An app's own administrator sees no webhooks of other apps") func otherApps() async throws {
        try await RunningService.run { running in
            for app in ["shop", "other"] { _ = try await running.client.makeApp(app) }
            let (shop, other) = (
                try await running.client.makeKey(app: "shop", scopes: ["admin"]),
                try await running.client.makeKey(app: "other", scopes: ["admin"])
            )
            let made = try await WebhookWorld.make(url: "https://example.invalid/", events: ["*"], shop)
            let id = try #require(made.json.text("id"))
            // Neither by its own app nor by the other's path.
            for path in ["/v1/apps/other/webhooks/\(id)", "/v1/apps/shop/webhooks/\(id)"] {
                #expect(try await other.get(path).status == 404)
                #expect(try await other.call("PATCH", path, #"{"enabled":false}"#).status == 404)
                #expect(try await other.post("\(path)/rotate").status == 404)
                #expect(try await other.post("\(path)/ping").status == 404)
                #expect(try await other.get("\(path)/messages").status == 404)
                #expect(try await other.post("\(path)/redeliver", #"{"failed":true}"#).status == 404)
                #expect(try await other.delete(path).status == 404)
            }
            #expect(try await shop.get("\(WebhookWorld.path)/\(id)").json["enabled"]?.boolValue == true)
        }
    }

    @Test("An app has a limited number of webhooks") func webhookLimit() async throws {
        try await RunningService.run { running in
            _ = try await running.client.makeApp()
            let admin = try await running.client.makeKey(app: "shop", scopes: ["admin"])
            for _ in 0..<Webhook.maximumPerApp {
                _ = try await WebhookWorld.make(url: "https://example.invalid/", events: ["*"], admin)
            }
            let refused = try await admin.post(WebhookWorld.path, #"{"url":"https://example.invalid/","events":["*"]}"#)
            #expect(refused.code == "too_many_webhooks")
        }
    }
}
