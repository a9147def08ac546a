import Broker
import Postgres
import PushModel
import StrictJSON
import TestSupport
import Testing
import TokenServiceSending

@Suite("Why a notification reached a user, or did not", .serialized, .timeLimit(.minutes(5)))
struct ExplanationTests {
    private static let still = RunningService.Options(without: { $0 is Relay })

    private struct Answer {
        let json: JSONValue
        var conclusion: String? { json.text("conclusion") }
        var explanation: String { json.text("explanation") ?? "" }
        /// The codes, in order.
        var steps: [String] { (json["steps"]?.arrayValue ?? []).compactMap { $0.text("what") } }

        func step(_ what: String) -> JSONValue? { json["steps"]?.arrayValue?.last { $0.text("what") == what } }
    }

    private static func why(_ id: String, _ user: String, _ client: APITestClient) async throws -> Answer {
        let answer = try await client.get("/v1/apps/shop/notifications/\(id)/why?user=\(user)")
        try #require(answer.status == 200)
        let times = (answer.json["steps"]?.arrayValue ?? []).compactMap { $0.text("at") }
        #expect(times == times.sorted(), "steps are in order of time")
        return Answer(json: answer.json)
    }

    private static func send(_ to: String, _ client: APITestClient, more: String = "") async throws -> String {
        try #require(try await client.send(to, more: more).json.text("id"))
    }

    @Test("From the match to Apple's answer, retries and the device's own history included") func sent() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            try await shop.register(installation(1), user: "ada", token: token(1))
            let job = try await running.sendAndTake(#"{"user":"ada"}"#, with: shop)
            let id = job.notification.description
            try await running.sending(job.notification, shop)
            let waiting = try await Self.why(id, "ada", shop)
            #expect(waiting.conclusion == "waiting" && waiting.steps == ["accepted", "addressed", "delivery_made", "published", "pending"])
            #expect(waiting.explanation == "Waiting: It was handed to the broker, and no dispatcher has reported on it yet.")
            let retryAt = UnixClock.now() + 60_000
            try await running.report(.throttled, of: job, final: false, status: 429, reason: "TooManyRequests", retryAt: retryAt)
            _ = try await eventually { try await Self.why(id, "ada", shop).step("attempt") }
            // That it was published is noted when it has been tried already.
            try await running.execute("UPDATE jobs SET published_at = now() + interval '40 milliseconds'")
            let tried = try await Self.why(id, "ada", shop).steps
            #expect(tried.filter { ["published", "attempt", "pending"].contains($0) } == ["published", "attempt", "pending"])
            try await running.report(.accepted, of: job, status: 200, attempt: 2)
            _ = try await running.completed(job.notification, shop)
            try await running.execute(
                "UPDATE jobs SET published_at = n.completed_at + interval '40 milliseconds' FROM notifications n WHERE n.id = notification")
            let answer = try await Self.why(id, "ada", shop)
            #expect(answer.conclusion == "sent")
            #expect(answer.explanation.hasPrefix("Sent: APNs accepted it for 1 of 1 tokens of ada"))
            #expect(answer.steps == ["accepted", "addressed", "delivery_made", "published", "attempt", "ended", "completed"])
            #expect(answer.step("attempt")?["detail"]?.text("reason") == "TooManyRequests")
            #expect(answer.step("ended")?.text("why") == "APNs accepted it at attempt 2.")
            #expect(answer.step("ended")?["detail"]?.text("delivery") == job.deliveries[0].id.description)
            #expect(answer.json["is_cut_short"] == nil)
            // Another user.
            let grace = try await Self.why(id, "grace", shop)
            #expect(grace.conclusion == "not_addressed" && grace.steps.contains("not_addressed"))
            #expect(try await shop.get("/v1/apps/shop/notifications/\(PushID.random())/why?user=ada").status == 404)
            #expect(try await shop.get("/v1/apps/shop/notifications/\(id)/why").code == "out_of_range")
            #expect(try await shop.get("/v1/apps/shop/notifications/\(id)/why?user=ada&x=1").code == "unknown_parameter")
        }
    }

    @Test("What a dispatcher has had was handed over, also where that is not noted yet; a job too") func notedLate() async throws {
        try await RunningService.run(Self.still) { running in
            let shop = try await running.client.makeApp()
            try await shop.register(installation(1), user: "ada", token: token(1))
            let job = try await running.sendAndTake(#"{"user":"ada"}"#, with: shop)
            let id = job.notification.description
            try await running.sending(job.notification, shop)
            try await running.report(.accepted, of: job, status: 200)
            _ = try await running.completed(job.notification, shop)
            try await running.execute("UPDATE jobs SET published_at = NULL")
            let answer = try await Self.why(id, "ada", shop)
            #expect(answer.steps == ["accepted", "addressed", "delivery_made", "published", "ended", "completed"])
            // Of a large audience, without a receipt.
            let all = try await Self.send(#"{"all":true}"#, shop)
            try await running.execute(
                """
                INSERT INTO jobs (notification, number, app_id, lane, locale, due_at, members, free_from, published_at, ended)
                SELECT n.id, 0, n.app_id, 'bulk', '', n.accepted_at, int8send(t.id), now(), now() + interval '1 second', B'1'::bit(100)
                FROM notifications n, tokens t WHERE n.id = \(all)::text::uuid
                """)
            try await running.execute(
                "UPDATE notifications SET state = 'completed', total = 1, completed_at = now() WHERE id = \(all)::text::uuid")
            let counted = try await Self.why(all, "ada", shop).steps
            #expect(counted.suffix(4) == ["delivery_made", "published", "ended", "completed"], "\(counted)")
        }
    }

    @Test("APNs is quoted only where it answered") func ownReasons() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            try await shop.register(installation(1), user: "ada", token: token(1))
            let job = try await running.sendAndTake(#"{"user":"ada"}"#, with: shop)
            let id = job.notification.description
            let tries: [(outcome: OutcomeClass, status: Int?, reason: String, words: String)] = [
                (.throttled, nil, "device_throttled", "It was not tried (device_throttled)"),
                (.misconfigured, nil, "pool_paused", "It was not tried (pool_paused)"),
                (.unknown, nil, "timed_out", "An attempt that was not the end: no answer came (timed_out)"),
                (.failed, 503, "Shutdown", "An attempt that was not the end: APNs answered 503 Shutdown"),
            ]
            for (attempt, given) in zip(1..., tries) {
                try await running.report(
                    given.outcome, of: job, final: false, status: given.status, reason: given.reason, retryAt: UnixClock.now() + 60_000,
                    attempt: attempt)
                let step = try await eventually {
                    let step = try await Self.why(id, "ada", shop).step("attempt")
                    return step?["detail"]?.text("reason") == given.reason ? step : nil
                }
                #expect(step.text("why")?.hasPrefix("\(given.words); it was to be tried again from ") == true, "\(step)")
            }
            try await running.report(.rejected, of: job, reason: "malformed", attempt: 5)
            _ = try await running.completed(job.notification, shop)
            let ended = try await Self.why(id, "ada", shop).step("ended")
            #expect(ended?.text("why") == "The request could not be sent as it is (malformed).")
        }
    }

    @Test(
        "What may have arrived is not said to be unsent, whatever stopped it",
        arguments: [
            (nil, "expired", "It was sent and no answer came, so it may have arrived; it expired before it could be sent again."),
            (nil, "fenced", "so it may have arrived; it was not sent again, because the user's time on this device was over."),
            (nil, "cancelled", "so it may have arrived; it was not sent again, because the notification had been stopped."),
            (nil, "superseded", "so it may have arrived; it was not sent again, because a newer one took its place."),
            (nil, "timed_out", "It was sent and no answer came, so it may have arrived (timed_out)."),
            (500, "InternalServerError", "It was sent and no answer came, so it may have arrived (500 InternalServerError)."),
        ] as [(Int?, String, String)])
    func unanswered(status: Int?, reason: String, words: String) async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            try await shop.register(installation(1), user: "ada", token: token(1))
            let job = try await running.sendAndTake(#"{"user":"ada"}"#, with: shop)
            try await running.report(.unknown, of: job, final: false, reason: "timed_out", retryAt: UnixClock.now())
            try await running.report(.unknown, of: job, status: status, reason: reason)
            _ = try await running.completed(job.notification, shop)
            let answer = try await Self.why(job.notification.description, "ada", shop)
            #expect(answer.conclusion == "unknown")
            #expect(answer.step("ended")?.text("why")?.hasSuffix(words) == true, "\(answer.steps)")
            #expect(answer.explanation.hasPrefix("Unknown: It was sent and no answer came"))
        }
    }

    @Test("A logout between acceptance and sending: the answer shows the fence and its user, not the next user's name")
    func fenced() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            try await shop.register(installation(1), user: "ada", token: token(1))
            let job = try await running.sendAndTake(#"{"user":"ada"}"#, with: shop)
            try await shop.register(installation(1), user: "grace", token: token(1))
            try await running.report(.fenced, of: job, reason: "owner_changed")
            _ = try await running.completed(job.notification, shop)
            let answer = try await eventually {
                let answer = try await Self.why(job.notification.description, "ada", shop)
                return answer.step("fenced")?.text("why")?.hasPrefix("The dispatchers know that") == true ? answer : nil
            }
            #expect(answer.conclusion == "not_sent")
            #expect(answer.explanation.contains("the user's time on this device was over"))
            #expect(Set(answer.steps).isSuperset(of: ["signed_out", "fenced", "ended"]))
            #expect(answer.step("ended")?["detail"]?.text("class") == "fenced")
            #expect(!answer.json.written.contains("grace"))
        }
    }

    @Test("Where nothing was made, the rule that left the device out is named") func absences() async throws {
        try await RunningService.run(Self.still) { running in
            let shop = try await running.client.makeApp()
            // Signed out before; without a token; signed in later; its token gone; no such user.
            try await shop.register(installation(1), user: "out", token: token(1))
            _ = try await shop.post("/v1/apps/shop/installations/\(installation(1))/logout")
            _ = try await shop.put("/v1/apps/shop/installations/\(installation(2))", #"{"user":"mute","tokens":[]}"#)
            try await shop.register(installation(4), user: "gone", token: token(4))
            try await running.execute(
                "UPDATE tokens SET state = 'retired', retired_reason = 'gone', retired_at = now() WHERE installation = \(installation(4))")
            var ids: [String: String] = [:]
            for user in ["out", "mute", "late", "gone", "nobody"] { ids[user] = try await Self.send(#"{"user":"\#(user)"}"#, shop) }
            try await shop.register(installation(3), user: "late", token: token(3))
            for (user, what) in [
                ("out", "signed_out_before"), ("mute", "no_token"), ("late", "signed_in_later"), ("gone", "no_token_then"),
                ("nobody", "never_signed_in"),
            ] {
                let answer = try await Self.why(try #require(ids[user]), user, shop)
                #expect(answer.conclusion == "not_sent" && answer.steps.contains(what), "\(user): \(answer.steps)")
                #expect(answer.steps.last == "no_targets" || answer.steps.contains("no_targets"), "\(user)")
            }
        }
    }

    @Test(
        "A user who is signed out before it is due gets it only after another sign-in, and never by the device's name: the answer says so",
        arguments: [#"{"user":"ada"}"#, #"{"all":true}"#, #"{"installation":"\#(installation(1))"}"#], [true, false])
    func signedOutBeforeItIsDue(to target: String, isLocal: Bool) async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            try await shop.register(installation(1), user: "ada", token: token(1))
            // Two days: a local time is due in the first time zone fourteen hours before UTC.
            let due = RFC3339.text(milliseconds: UnixClock.now() + 2 * 86_400_000)
            let id = try await Self.send(
                target, shop, more: isLocal ? #","local_time":"\#(due.prefix(16))""# : #","not_before":"\#(due)""#)
            _ = try await shop.post("/v1/apps/shop/users/ada/logout")
            let before = try await Self.why(id, "ada", shop)
            let isNamed = target.contains("installation")
            #expect(before.conclusion == (isNamed ? "not_sent" : "waiting") && before.steps.contains("signed_out_before"), "\(before.json)")
            #expect(isNamed || before.step("signed_out_before")?.text("why")?.hasSuffix("the user gets none here.") == true)
            guard !target.contains(#""all""#) else { return }
            // A sign-out within ten seconds before that may have been too late.
            try await running.execute(
                "UPDATE fan_outs SET due_at = clock_timestamp() + interval '11 seconds', free_from = clock_timestamp()")
            _ = try await eventually {
                try await shop.get("/v1/apps/shop/notifications/\(id)").json.text("state") == "no_targets" ? true : nil
            }
            let after = try await Self.why(id, "ada", shop)
            #expect(after.conclusion == "not_sent" && after.steps.contains("signed_out_before"), "\(after.steps)")
        }
    }

    @Test("The answer separates a token that came too late from one that is only registered again, of which no record is left")
    func laterTokens() async throws {
        try await RunningService.run(Self.still) { running in
            let shop = try await running.client.makeApp()
            _ = try await shop.put("/v1/apps/shop/installations/\(installation(1))", #"{"user":"late","tokens":[]}"#)
            try await shop.register(installation(2), user: "ada", token: token(2))
            let late = try await Self.send(#"{"user":"late"}"#, shop)
            let lost = try await Self.send(#"{"user":"ada"}"#, shop)
            try await shop.register(installation(1), user: "late", token: token(1))
            try await shop.register(installation(2), user: "ada", token: token(2))
            // As if it had ended and its receipt had been removed since.
            try await running.execute("UPDATE jobs SET ended = ~B'0'::bit(100)")
            let tooLate = try await Self.why(late, "late", shop)
            #expect(tooLate.conclusion == "not_sent" && tooLate.step("no_token_then")?.text("why")?.contains("only when") == true)
            let unknown = try await Self.why(lost, "ada", shop)
            #expect(unknown.conclusion == "not_recorded" && unknown.steps.contains("not_recorded"))
        }
    }

    @Test("Tags, other installations, other owners: what the target left out") func targets() async throws {
        try await RunningService.run(Self.still) { running in
            let shop = try await running.client.makeApp()
            try await shop.register(installation(1), user: "ada", token: token(1), tags: ["red"])
            try await shop.register(installation(2), user: "grace", token: token(2))
            let tagged = try await Self.send(#"{"tags":"blue"}"#, shop)
            let answer = try await Self.why(tagged, "ada", shop)
            #expect(answer.conclusion == "not_addressed" && answer.steps.contains("tags_do_not_match"))
            #expect(answer.explanation.contains("as they are now"))
            let other = try await Self.why(try await Self.send(#"{"installation":"\#(installation(2))"}"#, shop), "ada", shop)
            #expect(other.conclusion == "not_addressed" && other.steps.contains("not_named"))
            // Named while it was grace's, explained to ada who has it now.
            let named = try await Self.send(#"{"installations":["\#(installation(2))"]}"#, shop)
            try await shop.register(installation(2), user: "ada", token: token(2))
            let changed = try await Self.why(named, "ada", shop)
            #expect(changed.steps.contains("owner_differs"))
            // Its turn has not come: no process fans out here.
            let red = try await Self.why(try await Self.send(#"{"tags":"red"}"#, shop), "ada", shop)
            #expect(red.conclusion == "waiting" && red.steps.contains("not_reached_yet"))
            let scheduled = try await Self.send(
                #"{"user":"ada"}"#, shop, more: #","not_before":"\#(RFC3339.text(milliseconds: UnixClock.now() + 3_600_000))""#)
            let later = try await Self.why(scheduled, "ada", shop)
            #expect(later.conclusion == "waiting" && later.steps.contains("scheduled"))
            _ = try await shop.delete("/v1/apps/shop/notifications/\(scheduled)")
            let stopped = try await Self.why(scheduled, "ada", shop)
            #expect(stopped.conclusion == "not_sent" && Set(stopped.steps).isSuperset(of: ["stopped_before", "cancelled"]))
        }
    }

    @Test("A newer notification with the same key: the answer says what stopped the older one") func superseded() async throws {
        try await RunningService.run(Self.still) { running in
            let shop = try await running.client.makeApp()
            try await shop.register(installation(1), user: "ada", token: token(1))
            let key = #","supersede_key":"courier""#
            let older = try await Self.send(#"{"user":"ada"}"#, shop, more: key)
            let newer = try await Self.send(#"{"user":"ada"}"#, shop, more: key)
            let answer = try await Self.why(older, "ada", shop)
            #expect(answer.conclusion == "not_sent" && Set(answer.steps).isSuperset(of: ["stopped_before", "superseded"]))
            #expect(answer.explanation.contains("newer notification with the same supersede key"))
            #expect(try await Self.why(newer, "ada", shop).conclusion == "waiting")
            let listed = try await shop.get("/v1/apps/shop/notifications?state=cancelled").json["notifications"]
            #expect(listed?.arrayValue?.map { $0.text("cancel_reason") } == ["superseded"])
        }
    }

    @Test("Quiet hours: until when it waits") func quietHours() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            try await shop.register(installation(1), user: "ada", token: token(1))
            try await running.execute(
                """
                INSERT INTO quiet_hours (app_id, owner, begins_at, ends_at, updated_at)
                SELECT id, 'ada', (now() AT TIME ZONE 'UTC' - interval '1 hour')::time,
                    (now() AT TIME ZONE 'UTC' + interval '3 hours')::time,
                    now() FROM apps
                """)
            let id = try await Self.send(#"{"user":"ada"}"#, shop)
            _ = try await eventually { try await running.count("SELECT count(*) FROM jobs") == 1 ? true : nil }
            let answer = try await Self.why(id, "ada", shop)
            #expect(answer.conclusion == "waiting" && answer.steps.contains("waits") && answer.steps.contains("not_published"))
            #expect(answer.step("waits")?.text("why")?.contains("quiet hours") == true)
            let until = try #require(answer.step("waits")?["detail"]?.text("until"))
            // The headline is the cause, not what follows from it.
            #expect(
                answer.explanation.hasPrefix("Waiting: It waits until \(until): the end of its user's quiet hours"), "\(answer.explanation)"
            )
            // A local time that falls into quiet hours waits for their end, and does not take the blame.
            let local = RFC3339.text(milliseconds: UnixClock.now() + 600_000)
            let later = try await Self.send(#"{"user":"ada"}"#, shop, more: #","local_time":"\#(local.prefix(16))""#)
            let due = try await eventually { try await Self.why(later, "ada", shop).step("waits")?.text("why") }
            #expect(due.contains("quiet hours") && due.contains("\(local.prefix(16)) by the clock where the device is"), "\(due)")
            let urgent = try await Self.send(#"{"user":"ada"}"#, shop, more: #","urgent":true,"local_time":"\#(local.prefix(16))""#)
            let loud = try await eventually { try await Self.why(urgent, "ada", shop).step("waits")?.text("why") }
            #expect(!loud.contains("quiet hours") && loud.contains("by the clock where the device is"), "\(loud)")
        }
    }

    @Test("Of a large audience: what went well is known by its counter alone, what failed by its receipt")
    func largeAudience() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            for (number, user) in [(1, "ada"), (2, "grace"), (3, "linus")] {
                try await shop.register(installation(number), user: user, token: token(number))
            }
            let job = try await running.jobs(.bulk) { signal in
                _ = try await shop.send(#"{"all":true}"#)
                return try PushJob(decoding: try await signal.next().body)
            }
            let id = job.notification.description
            _ = try await eventually {
                try await running.count("SELECT count(*) FROM jobs WHERE published_at IS NOT NULL") == 1 ? true : nil
            }
            func part(_ number: Int) -> PushJob {
                var part = job
                part.deliveries = job.deliveries.filter { $0.token.hex == token(number) }
                return part
            }
            try await running.report(.accepted, of: part(1), status: 200)
            try await running.report(.rejected, of: part(2), status: 400, reason: "PayloadEmpty")
            _ = try await eventually { try await running.number("pending", "SELECT pending FROM notifications") == 1 ? true : nil }
            let ada = try await Self.why(id, "ada", shop)
            #expect(ada.conclusion == "sent" && ada.json.text("receipts") == "failures")
            #expect(ada.step("ended")?["at"]?.isNull == true && ada.step("ended")?.text("why")?.contains("not recorded") == true)
            let grace = try await Self.why(id, "grace", shop)
            #expect(grace.conclusion == "not_sent" && grace.step("ended")?["detail"]?.text("reason") == "PayloadEmpty")
            let linus = try await Self.why(id, "linus", shop)
            #expect(linus.conclusion == "waiting" && linus.steps.contains("pending"))
            // Signed in on a device that it reached, but only afterwards.
            try await shop.register(installation(1), user: "late", token: token(1))
            #expect(try await Self.why(id, "late", shop).conclusion != "sent")
            // The answer still knows the user who was there.
            #expect(try await Self.why(id, "ada", shop).conclusion == "sent")
            // A reinstall takes the token along: whether the old installation got it is not known any more, and the new one did not.
            try await shop.register(installation(4), user: "ada", token: token(1))
            let moved = try await Self.why(id, "ada", shop)
            #expect(moved.conclusion == "not_recorded" && !moved.steps.contains("delivery_made"), "\(moved.steps)")
            #expect(moved.step("not_recorded")?["detail"]?.text("installation") == installation(1).description)
            #expect(moved.step("signed_in_later")?["detail"]?.text("installation") == installation(4).description)
        }
    }

    @Test("A delivery to an audience that is due later goes to the owner of that moment: whose it was is not known")
    func laterOwner() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            try await shop.register(installation(1), user: "ada", token: token(1))
            let local = RFC3339.text(milliseconds: UnixClock.now() + 3_600_000).prefix(16)
            let job = try await running.jobs(.bulk) { signal in
                _ = try await Self.send(#"{"all":true}"#, shop, more: #","local_time":"\#(local)""#)
                _ = try await eventually {
                    try await running.count("SELECT count(*) FROM fan_outs JOIN jobs USING (notification) WHERE ended_at IS NOT NULL") == 1
                        ? true : nil
                }
                _ = try await shop.post("/v1/apps/shop/users/ada/logout")
                try await shop.register(installation(1), user: "bob", token: token(1))
                try await running.execute("UPDATE jobs SET free_from = now()")
                return try PushJob(decoding: try await signal.next().body)
            }
            try await running.report(.accepted, of: job, status: 200)
            _ = try await running.completed(job.notification, shop)
            for user in ["ada", "bob"] {
                let answer = try await Self.why(job.notification.description, user, shop)
                #expect(answer.conclusion == "not_recorded" && !answer.steps.contains("delivery_made"), "\(user): \(answer.json)")
            }
        }
    }

    @Test("A device that was deregistered since may have had a token, also if the token's row is gone") func deregisteredSince()
        async throws
    {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            try await shop.register(installation(1), user: "ada", token: token(1))
            let job = try await running.jobs(.bulk) { signal in
                _ = try await Self.send(#"{"all":true}"#, shop)
                return try PushJob(decoding: try await signal.next().body)
            }
            try await running.report(.accepted, of: job, status: 200)
            _ = try await running.completed(job.notification, shop)
            #expect(try await shop.delete("/v1/apps/shop/installations/\(installation(1))").status == 204)
            try await running.execute("DELETE FROM tokens")
            let answer = try await Self.why(job.notification.description, "ada", shop)
            #expect(answer.conclusion == "not_recorded" && !answer.steps.contains("no_token"), "\(answer.json)")
        }
    }

    @Test("A receipt is the user's if the epoch grew more than once while the user stayed") func severalEpochs() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            try await shop.register(installation(1), user: "ada", token: token(1))
            let job = try await running.sendAndTake(#"{"user":"ada"}"#, with: shop)
            try await running.report(.rejected, of: job, status: 400, reason: "PayloadEmpty")
            _ = try await running.completed(job.notification, shop)
            // As if two tokens had moved to other users.
            try await running.execute("UPDATE receipts SET owner_epoch = 2")
            try await running.execute("UPDATE installations SET owner_epoch = 3")
            let answer = try await Self.why(job.notification.description, "ada", shop)
            #expect(answer.conclusion == "not_sent" && answer.step("ended")?["detail"]?.text("reason") == "PayloadEmpty", "\(answer.json)")
            // Another user's epoch, between two times of the same user.
            try await shop.register(installation(1), user: "grace", token: token(1))
            try await shop.register(installation(1), user: "ada", token: token(1))
            try await running.execute("UPDATE receipts SET owner_epoch = 4")
            let other = try await Self.why(job.notification.description, "ada", shop)
            #expect(!other.steps.contains("ended"), "\(other.json)")
        }
    }

    @Test("A place of a list that fan-out has passed does not wait") func passedPlaces() async throws {
        try await RunningService.run(Self.still) { running in
            let shop = try await running.client.makeApp()
            _ = try await shop.put("/v1/apps/shop/installations/\(installation(1))", #"{"user":"ada","tokens":[]}"#)
            for target in [#"{"users":["ada"]}"#, #"{"installations":["\#(installation(1))"]}"#] {
                let id = try await Self.send(target, shop)
                try await shop.register(installation(1), user: "ada", token: token(1))
                let ahead = try await Self.why(id, "ada", shop)
                #expect(ahead.conclusion == "waiting" && ahead.steps.contains("not_reached_yet"), "\(target): \(ahead.json)")
                try await running.execute("UPDATE fan_outs SET checkpoint = 500")
                let passed = try await Self.why(id, "ada", shop)
                #expect(passed.conclusion == "not_recorded" && !passed.steps.contains("not_reached_yet"), "\(target): \(passed.json)")
            }
            // The first page of a user's many installations ends in front of the second one.
            try await shop.register(installation(2), user: "ada", token: token(2))
            let id = try await Self.send(#"{"users":["ada"]}"#, shop)
            try await running.execute(
                "UPDATE fan_outs SET checkpoint_installation = \(installation(2)) WHERE notification = \(id)::text::uuid")
            let reached = try await Self.why(id, "ada", shop)
            #expect(reached.step("not_reached_yet")?["detail"]?.text("installation") == installation(2).description, "\(reached.json)")
            #expect(reached.step("not_recorded")?["detail"]?.text("installation") == installation(1).description, "\(reached.json)")
        }
    }

    @Test("A token's number is found at its own place only, whatever the bytes around it spell") func alignment() async throws {
        try await RunningService.run(Self.still) { running in
            let shop = try await running.client.makeApp()
            try await shop.register(installation(1), user: "ada", token: token(1))
            let id = try await Self.send(#"{"all":true}"#, shop)
            // The members 256 and 256 hold the bytes of 1 across their border.
            let number = try await running.number("id", "SELECT id FROM tokens")
            #expect(number < 256)
            try await running.execute(
                """
                INSERT INTO jobs (notification, number, app_id, lane, locale, due_at, members, free_from, published_at)
                VALUES (\(id)::text::uuid, 0, 1, 'bulk', '', now(),
                    int8send(\(number)::bigint * 256) || int8send(\(number)::bigint * 256), now(), now())
                """)
            let answer = try await Self.why(id, "ada", shop)
            #expect(!answer.steps.contains("delivery_made"))
        }
    }
}
