import Broker
import Postgres
import PushModel
import StrictJSON
import TestSupport
import Testing
import TokenServiceRegistry
import TokenServiceSending

@Suite("Why a notification that was sent is not seen", .serialized, .timeLimit(.minutes(5)))
struct PermissionExplanationTests {
    private static func why(_ id: String, _ user: String, _ client: APITestClient) async throws -> JSONValue {
        let answer = try await client.get("/v1/apps/shop/notifications/\(id)/why?user=\(user)")
        try #require(answer.status == 200)
        return answer.json
    }

    /// `what reason` and the sentence of the steps about the permission.
    private static func limits(_ explanation: JSONValue) -> [String] {
        (explanation["steps"]?.arrayValue ?? []).filter { ["not_shown", "shown_quietly"].contains($0.text("what")) }.map {
            "\($0.text("what") ?? "") \($0["detail"]?.text("reason") ?? ""): \($0.text("why") ?? "")"
        }
    }

    private static let sentences: [String: String] = [
        "denied": "not_shown denied: The device shows nothing now: the person has denied notifications, as the app last reported.",
        "not_determined":
            """
        not_shown not_determined: The device shows nothing now: the app has not asked the person for the permission yet, as the app \
        last reported.
        """,
        "provisional":
            """
        shown_quietly provisional: The device shows alerts quietly now, in Notification Center only: the permission is provisional, as \
        the app last reported.
        """,
    ]

    @Test("Before and after APNs accepted an alert, its account says what the device does not show") func alert() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            try await shop.registerPermissions()
            for user in ReportedPermission.allCases.map(\.rawValue) {
                let expected = Self.sentences[user].map { [$0] } ?? []
                let job = try await running.sendAndTake(#"{"user":"\#(user)"}"#, with: shop)
                let id = job.notification.description
                let waiting = try await Self.why(id, user, shop)
                #expect(waiting.text("conclusion") == "waiting" && Self.limits(waiting) == expected, "\(waiting)")
                try await running.report(.accepted, of: job, status: 200)
                _ = try await running.completed(job.notification, shop)
                let sent = try await Self.why(id, user, shop)
                #expect(sent.text("conclusion") == "sent" && Self.limits(sent) == expected, "\(sent)")
                let rest =
                    ["denied", "not_determined"].contains(user)
                    ? "no device shows it now, because the person has not allowed notifications."
                    : "what the device did with it APNs does not report."
                #expect(sent.text("explanation") == "Sent: APNs accepted it for 1 of 1 tokens of \(user); \(rest)")
                // An outcome that no device got.
                let refused = try await running.sendAndTake(#"{"user":"\#(user)"}"#, with: shop)
                try await running.report(.rejected, of: refused, status: 400, reason: "PayloadEmpty")
                _ = try await running.completed(refused.notification, shop)
                #expect(Self.limits(try await Self.why(refused.notification.description, user, shop)) == [], "\(user)")
            }
        }
    }

    @Test("The sentence says so only if no device that got it shows it") func oneOfTwo() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            try await shop.register(installation(1), user: "ada", token: token(1), more: #","permission":"denied""#)
            try await shop.register(installation(2), user: "ada", token: token(2))
            let job = try await running.sendAndTake(#"{"user":"ada"}"#, with: shop)
            var hidden = job
            hidden.deliveries = job.deliveries.filter { $0.installation == installation(1) }
            var shown = job
            shown.deliveries = job.deliveries.filter { $0.installation == installation(2) }
            try await running.report(.accepted, of: hidden, status: 200)
            _ = try await eventually { try await running.number("pending", "SELECT pending FROM notifications") == 1 ? true : nil }
            let one = try await Self.why(job.notification.description, "ada", shop).text("explanation")
            #expect(
                one
                    == """
                    Sent: APNs accepted it for 1 of 2 tokens of ada; no device shows it now, because the person has not allowed \
                    notifications.
                    """
            )
            try await running.report(.accepted, of: shown, status: 200)
            _ = try await running.completed(job.notification, shop)
            let both = try await Self.why(job.notification.description, "ada", shop)
            #expect(
                both.text("explanation")?.hasSuffix("for 2 of 2 tokens of ada; what the device did with it APNs does not report.") == true)
            #expect(Self.limits(both).count == 1)
        }
    }

    @Test("A device that the fan-out has not reached yet; a push that is no alert; a device that was left out")
    func otherCases() async throws {
        try await RunningService.run(.init(without: { $0 is Relay })) { running in
            let shop = try await running.client.makeApp()
            try await shop.register(installation(1), user: "ada", token: token(1), more: #","permission":"denied""#)
            try await shop.register(installation(2), user: "ada", token: token(2), more: #","permission":"denied""#, tags: ["red"])
            let later = try #require(try await shop.send(#"{"tags":"red"}"#).json.text("id"))
            let waiting = try await Self.why(later, "ada", shop)
            #expect(waiting.text("conclusion") == "waiting" && Self.limits(waiting) == Self.sentences["denied"].map { [$0] })
            let reached = waiting["steps"]?.arrayValue?.first { $0.text("what") == "not_shown" }?["detail"]?.text("installation")
            #expect(reached == installation(2).description)
            let silent = try await shop.post(
                "/v1/apps/shop/notifications", #"{"to":{"user":"ada"},"content":{"content_available":true}}"#)
            #expect(Self.limits(try await Self.why(try #require(silent.json.text("id")), "ada", shop)) == [])
            let narrow = try await shop.send(#"{"tags":"permission:authorized"}"#)
            let left = try await Self.why(try #require(narrow.json.text("id")), "ada", shop)
            #expect(left.text("conclusion") == "not_addressed" && Self.limits(left) == [])
            // The permission alone leaves the second one out: the answer names tags and permission, and does not tell them apart.
            let some = try #require(try await shop.send(#"{"tags":"red AND NOT \"permission:denied\""}"#).json.text("id"))
            let denied = try await Self.why(some, "ada", shop)
            let out = (denied["steps"]?.arrayValue ?? []).filter { $0.text("what") == "tags_do_not_match" }
            #expect(denied.text("conclusion") == "not_addressed" && out.count == 2)
            let words = "The device's tags and permission (denied) do not match"
            #expect(out.allSatisfy { $0.text("why")?.hasPrefix(words) == true }, "\(out)")
            #expect(out.compactMap { $0["detail"]?.text("reason") } == ["denied", "denied"])
        }
    }
}
