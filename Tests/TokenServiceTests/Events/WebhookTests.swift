import FoundationEssentials
import Observability
import Postgres
import PushModel
import StrictJSON
import TestSupport
import Testing
import TokenService

@Suite("Webhooks carry events, signed, to those who asked", .serialized, .timeLimit(.minutes(5)))
struct WebhookTests {
    private static func expectSigned(_ received: WebhookReceiver.Received, with secrets: [String], _ scratch: Scratch) throws {
        let expected = try secrets.map { secret in
            try scratch.signature(
                id: received.id, timestamp: received.header("webhook-timestamp"), body: received.body, secret: secret)
        }
        #expect(received.header("webhook-signature") == expected.joined(separator: " "))
        let sent = try #require(Int64(received.header("webhook-timestamp")))
        #expect(abs(sent - UnixClock.now() / 1000) < 300)
        #expect(received.header("content-type") == "application/cloudevents+json")
        #expect(try received.json.text("id") == received.id)
    }

    @Test("A webhook gets the events of a notification and of its outcomes") func notificationEvents() async throws {
        let scratch = try Scratch()
        try await WebhookReceiver.run { receiver in
            try await RunningService.run(WebhookWorld.options()) { running in
                let world = try await WebhookWorld(
                    running, url: receiver.url, events: ["notification.*", "delivery.accepted", "installation.registered"])
                try await world.shop.register(installation(1), user: "somebody", token: token(1))
                let job = try await running.sendAndTake(#"{"user":"somebody"}"#, with: world.shop)
                try await running.sending(job.notification, world.shop)
                try await running.report(.accepted, of: job, status: 200, sentAt: UnixClock.now())
                var types: [String: JSONValue] = [:]
                while types.count < 5 {
                    let received = try await receiver.received.next()
                    try Self.expectSigned(received, with: [world.secret], scratch)
                    types[try received.type] = try received.json
                    let text = String(decoding: received.body, as: UTF8.self)
                    #expect(!text.contains("somebody") && !text.contains("hello") && !text.contains(token(1)))
                }
                #expect(
                    Set(types.keys) == [
                        "push.installation.registered.v1", "push.notification.accepted.v1", "push.notification.sending.v1",
                        "push.delivery.outcome.v1", "push.notification.completed.v1",
                    ])
                let completed = try #require(types["push.notification.completed.v1"])
                #expect(completed.text("subject") == "notifications/\(job.notification)")
                #expect(completed["data"]?.text("notification") == job.notification.description)
                #expect(completed["data"]?["counts"]?.number("accepted") == 1)
                let outcome = try #require(types["push.delivery.outcome.v1"]?["data"]?["deliveries"]?.arrayValue?.first)
                #expect(outcome.text("id") == job.deliveries.first?.id.description)
                _ = try await eventually {
                    try await world.messages("?state=delivered").count == 5 ? true : nil
                }
                #expect(try await world.webhook().text("last_success_at") != nil)
                #expect(running.metrics.render().contains(#"push_token_service_webhook_attempts_total{result="delivered"}"#))
            }
        }
    }

    @Test("A webhook gets only the events that it asked for") func wantedEvents() async throws {
        try await WebhookReceiver.run { receiver in
            try await RunningService.run(WebhookWorld.options()) { running in
                let world = try await WebhookWorld(running, url: receiver.url, events: ["token.removed"])
                let other = try await running.client.makeApp("other")
                for (client, app) in [(world.shop, "shop"), (other, "other")] {
                    try await client.register(installation(1), user: "somebody", token: token(1), app: app)
                    _ = try await client.put("/v1/apps/\(app)/installations/\(installation(1))", #"{"user":"somebody","tokens":[]}"#)
                }
                let received = try await receiver.received.next()
                #expect(try received.type == "push.token.removed.v1")
                #expect(try received.json["data"]?.text("app") == "shop")
                let ping = try await world.ping()
                #expect(try await receiver.received.first { $0.id != received.id }.id == ping)
            }
        }
    }

    @Test("During a rotation the service signs with two secrets") func twoSecrets() async throws {
        let scratch = try Scratch()
        try await WebhookReceiver.run { receiver in
            try await RunningService.run(WebhookWorld.options()) { running in
                let world = try await WebhookWorld(running, url: receiver.url, events: ["*"])
                let rotated = try await world.admin.post("\(world.path)/rotate")
                let second = try #require(rotated.json.text("secret"))
                #expect(second != world.secret)
                #expect(rotated.json.text("previous_secret_until") != nil)
                #expect(try await world.webhook()["secret"] == nil)
                let first = try await world.ping()
                try Self.expectSigned(try await receiver.received.first { $0.id == first }, with: [second, world.secret], scratch)
                let third = try #require(
                    try await world.admin.post("\(world.path)/rotate", #"{"overlap_seconds":0}"#).json.text("secret"))
                let last = try await world.ping()
                try Self.expectSigned(try await receiver.received.first { $0.id == last }, with: [third], scratch)
            }
        }
    }

    /// With a certificate for its name; and without one, or for another name, nothing is said.
    @Test("The service checks the receiver's certificate") func checkedCertificate() async throws {
        let scratch = try Scratch()
        let good = try scratch.makeCertificate("good", for: "DNS:localhost")
        let bad = try scratch.makeCertificate("bad", for: "DNS:elsewhere")
        try scratch.write("roots.pem", scratch.read("good.pem") + scratch.read("bad.pem"))
        let options = WebhookWorld.options(["WEBHOOK_CA_FILE": scratch.path("roots.pem")])
        try await WebhookReceiver.run(tls: good) { receiver in
            try await WebhookReceiver.run(tls: bad) { impostor in
                try await RunningService.run(options) { running in
                    let world = try await WebhookWorld(running, url: "https://localhost:\(receiver.port)/", events: ["*"])
                    let ping = try await world.ping()
                    #expect(try await receiver.received.next().id == ping)
                    _ = try await world.admin.call("PATCH", world.path, #"{"url":"https://localhost:\#(impostor.port)/"}"#)
                    let lost = try await world.message(try await world.ping(), "failed")
                    #expect(lost.text("last_error")?.hasPrefix("connection") == true || lost.text("last_error")?.hasPrefix("http") == true)
                    #expect(impostor.received.waiting.isEmpty)
                }
            }
        }
    }

    /// A process that takes a message has it alone; every message arrives. An attempt that fails on a busy machine is repeated, so this
    /// counts what the receiver answered and what the processes made of it, not attempts alone.
    @Test("Two processes share the work") func sharedWork() async throws {
        try await WebhookReceiver.run { receiver in
            try await RunningService.run(WebhookWorld.options()) { running in
                try await running.another(WebhookWorld.options()) { other in
                    let world = try await WebhookWorld(running, url: receiver.url, events: ["installation.registered"])
                    let count = 60
                    for number in 1...count { try await world.shop.register(installation(number), user: nil, token: token(number)) }
                    var ids: [String: Int] = [:]
                    while ids.count < count { ids[try await receiver.received.next().id, default: 0] += 1 }
                    _ = try await eventually {
                        try await running.count("SELECT count(*) FROM webhook_messages WHERE state <> 'delivered'") == 0 ? true : nil
                    }
                    #expect(try await running.count("SELECT count(*) FROM webhook_messages") == Int64(count))
                    let (delivered, failed) = (
                        Self.attempts("delivered", running) + Self.attempts("delivered", other),
                        Self.attempts("failed", running) + Self.attempts("failed", other)
                    )
                    #expect(delivered == count)
                    #expect(
                        try await running.number("attempts", "SELECT sum(attempts)::bigint AS attempts FROM webhook_messages")
                            == Int64(count + failed))
                    #expect(failed > 0 || ids.values.allSatisfy { $0 == 1 })
                    #expect(other.client.port != running.client.port)
                }
            }
        }
    }

    private static func attempts(_ result: String, _ running: RunningService) -> Int {
        let name = "push_token_service_webhook_attempts_total{result=\"\(result)\"} "
        return running.metrics.render().split(separator: "\n").first { $0.hasPrefix(name) }.flatMap { Int($0.dropFirst(name.count)) } ?? 0
    }

    @Test("The service lists messages and sends them again under their ids") func listedMessages() async throws {
        try await WebhookReceiver.run { receiver in
            try await RunningService.run(WebhookWorld.options()) { running in
                let world = try await WebhookWorld(running, url: receiver.url, events: ["*"])
                var pings: [String] = []
                for _ in 0..<3 {
                    pings.append(try await world.ping())
                    _ = try await world.message(pings[pings.count - 1], "delivered")
                }
                let first = try await world.admin.get("\(world.path)/messages?limit=2").json
                let cursor = try #require(first.text("next_cursor"))
                let second = try await world.admin.get("\(world.path)/messages?limit=2&cursor=\(cursor)").json
                let listed = ((first["messages"]?.arrayValue ?? []) + (second["messages"]?.arrayValue ?? [])).compactMap { $0.text("id") }
                #expect(Set(listed) == Set(pings) && listed.count == 3)
                #expect(second["next_cursor"]?.isNull == true)
                #expect(try await world.admin.get("\(world.path)/messages?state=failed&cursor=\(cursor)").code == "cursor_of_another_list")
                #expect(try await receiver.received.next(3).map(\.id).sorted() == pings.sorted())
                let again = try await world.admin.post("\(world.path)/redeliver", #"{"messages":["\#(pings[1])"]}"#)
                #expect(again.json.number("redelivered") == 1)
                #expect(try await receiver.received.next().id == pings[1])
                #expect(try await world.admin.post("\(world.path)/redeliver", #"{}"#).problems == ["/messages conflict"])
            }
        }
    }
}
