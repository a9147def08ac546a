import Broker
import Postgres
import PushModel
import StrictJSON
import TestSupport
import Testing
import TokenService

@Suite("Why: a hold that keeps a notification back is named, wherever the notification waits", .serialized, .timeLimit(.minutes(5)))
struct HoldExplanationTests {
    private static func why(_ id: String, _ client: APITestClient, user: String = "ada") async throws -> JSONValue {
        let answer = try await client.get("/v1/apps/shop/notifications/\(id)/why?user=\(user)")
        try #require(answer.status == 200)
        let times = (answer.json["steps"]?.arrayValue ?? []).compactMap { $0.text("at") }
        #expect(times == times.sorted(), "steps are in order of time")
        return answer.json
    }

    private static func held(_ answer: JSONValue) -> [JSONValue] {
        (answer["steps"]?.arrayValue ?? []).filter { $0.text("what") == "held" }
    }

    private static func named(_ answer: JSONValue) -> Set<String> { Set(held(answer).compactMap { $0["detail"]?.text("hold") }) }

    @Test("Before it is published, as a job or a fan-out: by everything, the app, a lane, the notification; no longer once it is lifted")
    func beforePublishing() async throws {
        try await RunningService.run { running in
            let (shop, chief) = try await running.operate()
            try await shop.register(installation(1), user: "ada", token: token(1))
            let app = try await chief.setHold(#"{"all":true,"reason":"wrong prices","ttl_seconds":3600}"#)
            let lane = try await chief.setHold(#"{"lane":"soon","reason":"too many"}"#)
            let resolved = try #require(try await shop.send(#"{"user":"ada"}"#).json.text("id"))
            let fannedOut = try #require(try await shop.send(#"{"users":["ada"]}"#).json.text("id"))
            _ = try await eventually {
                let jobs = try await running.count("SELECT count(*) FROM jobs WHERE held_by IS NOT NULL")
                let fanOuts = try await running.count("SELECT count(*) FROM fan_outs WHERE held_by IS NOT NULL")
                return jobs == 1 && fanOuts == 1 ? true : nil
            }
            let one = try await chief.setHold(#"{"notification":"\#(resolved)","reason":"a typo"}"#)
            let everywhere = try await running.client.setHold(#"{"all":true,"reason":"Apple is ill"}"#, at: "/v1/admin/holds")
            let first = try await Self.why(resolved, shop)
            #expect(Self.named(first) == [app, one, everywhere] && first.text("conclusion") == "waiting", "\(first)")
            #expect(first.text("explanation")?.hasPrefix("Waiting: An operator's hold on") == true, "\(first)")
            // One of those that end last.
            #expect(first.text("explanation")?.contains("keeps it back until it is lifted;") == true, "\(first)")
            let byApp = Self.held(first).first { $0["detail"]?.text("hold") == app }
            #expect(byApp?.text("why")?.contains("hold on the app keeps it back until 20") == true)
            #expect(byApp?.text("why")?.hasSuffix(#"the reason given is "wrong prices"."#) == true)
            #expect(byApp?["detail"]?.text("until") != nil && byApp?["detail"]?.text("reason") == "wrong prices")
            #expect(Self.held(first).contains { $0.text("why")?.contains("this notification keeps it back until it is lifted") == true })
            let second = try await Self.why(fannedOut, shop)
            #expect(Self.named(second) == [app, lane, everywhere], "\(second)")
            #expect(Self.held(second).contains { $0.text("why")?.contains("the app's lane soon") == true })
            try await running.client.liftHold(everywhere, at: "/v1/admin/holds")
            try await chief.liftHold(app)
            #expect(Self.named(try await Self.why(resolved, shop)) == [one])
            try await chief.liftHold(one)
            #expect(Self.named(try await Self.why(resolved, shop)).isEmpty)
            #expect(Self.named(try await Self.why(fannedOut, shop)) == [lane])
        }
    }

    @Test("Of a copy of an update: also a hold on the update") func original() async throws {
        try await RunningService.run { running in
            let (shop, chief) = try await running.operate()
            try await shop.register(installation(1), user: "ada", token: token(1))
            let lane = try await chief.setHold(#"{"lane":"now","reason":"too many"}"#)
            let update = try #require(try await shop.send(#"{"user":"ada"}"#).json.text("id"))
            let copy = try #require(try await shop.send(#"{"user":"ada"}"#).json.text("id"))
            try await running.execute("UPDATE notifications SET copy_of = \(update)::text::uuid WHERE id = \(copy)::text::uuid")
            _ = try await eventually {
                try await running.count("SELECT count(*) FROM jobs WHERE held_by IS NOT NULL") == 2 ? true : nil
            }
            let one = try await chief.setHold(#"{"notification":"\#(update)","reason":"a typo"}"#)
            #expect(Self.named(try await Self.why(update, shop)) == [lane, one])
            let answer = try await Self.why(copy, shop)
            #expect(Self.named(answer) == [lane, one], "\(answer)")
            #expect(Self.held(answer).contains { $0.text("why")?.contains("hold on the update that it repeats keeps it back") == true })
        }
    }

    @Test("What ended while it was held was never handed to the broker") func endedBeforePublishing() async throws {
        try await RunningService.run { running in
            let (shop, chief) = try await running.operate()
            let users = ["ada", "grace", "linus"]
            for (number, user) in zip(1..., users) { try await shop.register(installation(number), user: user, token: token(number)) }
            let hold = try await chief.setHold(#"{"all":true,"reason":"wrong prices"}"#)
            var ids: [String: String] = [:]
            for user in users { ids[user] = try await shop.send(#"{"user":"\#(user)"}"#).json.text("id") }
            let (stopped, late) = (try #require(ids["ada"]), try #require(ids["linus"]))
            _ = try await shop.delete("/v1/apps/shop/notifications/\(stopped)")
            _ = try await shop.post("/v1/apps/shop/installations/\(installation(2))/logout")
            try await running.execute("UPDATE notifications SET expires_at = now() WHERE id = \(late)::text::uuid")
            try await chief.liftHold(hold)
            _ = try await eventually { try await running.count("SELECT count(*) FROM deliveries WHERE class IS NULL") == 0 ? true : nil }
            for (user, reason) in [
                ("ada", "cancelled_before_publishing"), ("grace", "owner_changed"), ("linus", "expired_before_publishing"),
            ] {
                let answer = try await Self.why(try #require(ids[user]), shop, user: user)
                let steps = answer["steps"]?.arrayValue ?? []
                #expect(answer.text("conclusion") == "not_sent", "\(answer)")
                #expect(steps.first { $0.text("what") == "ended" }?["detail"]?.text("reason") == reason, "\(answer)")
                #expect(!steps.contains { ["published", "not_published"].contains($0.text("what")) }, "\(answer)")
            }
        }
    }

    @Test("In the dispatchers' queues: what put it back, and what keeps it there; neither of what is over")
    func inTheQueues() async throws {
        try await RunningService.run { running in
            let (shop, chief) = try await running.operate()
            try await shop.register(installation(1), user: "ada", token: token(1))
            let job = try await running.sendAndTake(#"{"user":"ada"}"#, with: shop)
            let id = job.notification.description
            let hold = try await chief.setHold(#"{"lane":"now","reason":"r"}"#)
            try await running.report(.held, of: job, final: false, reason: "lane_held")
            let answer = try await eventually {
                let answer = try await Self.why(id, shop)
                return Self.held(answer).count == 2 ? answer : nil
            }
            #expect(Self.named(answer) == [hold] && answer.text("conclusion") == "waiting")
            #expect(Self.held(answer).contains { $0["detail"]?.text("reason") == "lane_held" && $0["detail"]?.text("class") == "held" })
            try await running.report(.accepted, of: job, status: 200, attempt: 2)
            _ = try await running.completed(job.notification, shop)
            let after = try await Self.why(id, shop)
            #expect(after.text("conclusion") == "sent" && Self.named(after).isEmpty && Self.held(after).count == 1)
        }
    }
}
