import Observability
import Postgres
import PushModel
import StrictJSON
import TestSupport
import Testing
import TokenServiceApps
import TokenServiceOutcomes
import TokenServiceRegistry
import TokenServiceUpkeep

@Suite("The brake, and the way back", .serialized, .timeLimit(.minutes(5)))
struct QuarantineTests {
    private static let restorePath = "/v1/apps/shop/quarantine/restore"

    @Test("The brake quarantines the tokens that were retired before it engaged")
    func whatWasRetiredBeforeTheBrakeEngagedIsQuarantined() async throws {
        try await RunningService.run { running in
            let brake = try await Brake(running, count: 25)
            try await brake.report(.tokenRejected, 0..<20)
            #expect(try await brake.states() == ["active": 5, "quarantined": 0, "retired": 20])
            try await brake.report(.tokenRejected, 20..<25)
            #expect(try await brake.states() == ["active": 5, "quarantined": 20, "retired": 0])
            let events = try await running.history(installation(1), ["token_retired", "token_quarantined"]).map(\.event)
            #expect(events == ["token_retired", "token_quarantined"])
            try await running.counted("tokens_quarantined_total", 20)
            try await running.counted("brakes_engaged", 1)
        }
    }

    @Test("The alarm names the app by its slug, and an installation's history the rejection of a token that the brake left active")
    func whoseTokens() async throws {
        let lines = LogLines()
        try await RunningService.run(.init(logger: lines.logger)) { running in
            let brake = try await Brake.engaged(running)
            _ = try await eventually { lines.all.contains { $0.hasPrefix("Tokens that had been retired are in quarantine") } ? true : nil }
            let alarms = lines.all.filter { $0.hasPrefix("Too many tokens are rejected") || $0.hasPrefix("Tokens that had been retired") }
            #expect(alarms.count == 2 && alarms.allSatisfy { $0.contains("shop") && !$0.contains("app.id") }, "\(alarms)")
            func history() async throws -> JSONValue {
                try await brake.shop.get("/v1/apps/shop/installations/\(installation(25))/history").json
            }
            let rejected = try await history()
            #expect(rejected["reachable"]?.boolValue == true && rejected.text("rejected_at") != nil)
            let words = "APNs rejected its alert token \(hint(25)) (400 BadDeviceToken)"
            #expect(rejected.text("explanation")?.contains(words) == true, "\(rejected)")
            // A newer answer takes its place.
            let job = try await running.sendAndTake(#"{"installation":"\#(installation(25))"}"#, with: brake.shop)
            #expect(try await history().text("explanation") == rejected.text("explanation"))
            try await running.report(.accepted, of: job, status: 200)
            _ = try await running.completed(job.notification, brake.shop)
            let accepted = try await history()
            #expect(accepted["rejected_at"] == nil && accepted.text("explanation")?.hasPrefix("Reachable: signed in") == true)
        }
    }

    @Test("What another app sent to an installation of the same id hides no rejection") func ownRejection() async throws {
        try await RunningService.run { running in
            let brake = try await Brake.engaged(running)
            func rejectedAt() async throws -> String? {
                try await brake.shop.get("/v1/apps/shop/installations/\(installation(25))/history").json.text("rejected_at")
            }
            let before = try await rejectedAt()
            #expect(before != nil)
            let blog = try await running.client.makeApp("blog")
            #expect(try await blog.register(installation(25), user: "ada", token: token(25), app: "blog").status == 201)
            try await running.execute(
                """
                INSERT INTO receipts (notification, number, position, token_id, installation, owner_epoch, environment, class, updated_at)
                SELECT new_id(), 0, 0, t.id, t.installation, 1, 'production', 'accepted', now()
                FROM tokens t JOIN apps a ON a.id = t.app_id CROSS JOIN generate_series(1, 150) WHERE a.slug = 'blog'
                """)
            #expect(try await rejectedAt() == before)
            let theirs = try await blog.get("/v1/apps/blog/installations/\(installation(25))/history").json
            #expect(theirs["reachable"]?.boolValue == true && theirs.text("rejected_at") == nil)
        }
    }

    @Test("The brake does not quarantine tokens that were retired before its window or for another reason")
    func outsideWindow() async throws {
        try await RunningService.run { running in
            let brake = try await Brake(running, count: 25)
            try await brake.report(.tokenRejected, 0..<20)
            try await running.execute(
                "UPDATE tokens SET retired_at = now() - interval '11 minutes' WHERE id = (SELECT min(id) FROM tokens)")
            try await running.execute(
                "UPDATE tokens SET retired_reason = 'gone' WHERE id = (SELECT max(id) FROM tokens WHERE state = 'retired')")
            try await brake.report(.tokenRejected, 20..<25)
            #expect(try await brake.states()["quarantined"] == 18)
        }
    }

    @Test("The service believes a few rejections among many accepted deliveries") func fewRejections() async throws {
        try await RunningService.run { running in
            let brake = try await Brake(running, count: 130)
            try await running.execute(
                "INSERT INTO outcome_counts SELECT id, date_trunc('minute', now()), 'accepted', 200 FROM apps")
            try await brake.report(.tokenRejected, 0..<30)
            #expect(try await brake.states() == ["active": 100, "quarantined": 0, "retired": 30])
        }
    }

    /// Two services apply single rejections as they come: the one that engages the brake must find what the other one retired.
    @Test("Two services miss no rejection") func twoServices() async throws {
        try await RunningService.run { running in
            try await running.another { _ in
                let brake = try await Brake(running, count: 60)
                try await brake.report(.tokenRejected, 0..<60, inEventsOf: 1)
                let states = try await brake.states()
                #expect(states["retired"] == 0)
                #expect((states["quarantined"] ?? 0) <= 20)
            }
        }
    }

    /// Across the turn of a minute not even the counters make two batches meet: another process has retired in the last minute and is about
    /// to commit.
    @Test("A batch waits for another batch's rejections") func waitingBatch() async throws {
        try await RunningService.run { running in
            let brake = try await Brake(running, count: 25)
            let ids = brake.job.deliveries[..<20].map(\.installation)
            try await running.pool.transaction(deadline: .seconds(240)) { session in
                try OutcomeStore(session: session).lockBrakes(of: [try session.execute("SELECT id FROM apps").only()["id"]])
                try session.execute(
                    """
                    INSERT INTO outcome_counts SELECT id, date_trunc('minute', now()) - interval '1 minute', 'token_rejected', 20 FROM apps
                    """
                )
                try session.execute(
                    """
                    UPDATE tokens SET state = 'retired', retired_at = now(), retired_reason = 'rejected'
                    WHERE installation = ANY (\(ids)::uuid[])
                    """)
                Self.report(brake, 20..<25)
                try Self.waitForAWaiter(in: session)
            }
            try await brake.report(.tokenRejected, 20..<25)
            #expect(try await brake.states() == ["active": 5, "quarantined": 20, "retired": 0])
        }
    }

    @Test("A batch reads past no token that is in quarantine already, however many are") func manyInQuarantine() async throws {
        try await RunningService.run { running in
            _ = try await running.client.makeApp()
            let app = try await running.app()
            try await running.fill(2000, app: app)
            let (found, read) = try await running.pool.session { session in
                try session.execute(
                    """
                    UPDATE tokens SET state = 'retired', retired_reason = 'rejected', retired_at = now(),
                        quarantined_at = CASE WHEN id > (SELECT min(id) + 9 FROM tokens) THEN now() END
                    """)
                let before = try session.entriesRead(of: "tokens")
                let found = try OutcomeStore(session: session).retiredInWindow(of: [app.id])
                return (found.count, try session.entriesRead(of: "tokens") - before)
            }
            #expect(found == 10)
            #expect(10...100 ~= read)
        }
    }

    private static func report(_ brake: Brake, _ range: Range<Int>) {
        Task { try await brake.report(.tokenRejected, range) }
    }

    /// Until a batch waits for the brake, or has gone on without.
    private static func waitForAWaiter(in session: PostgresSession) throws {
        while true {
            let seen: Int64 = try session.execute(
                """
                SELECT (SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted
                        AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))
                    + (SELECT count(*) FROM deliveries WHERE class IS NOT NULL) AS count
                """
            ).only()["count"]
            if seen > 0 { return }
        }
    }

    @Test("The list shows each token once, and a restore brings all of them back") func listAndRestore() async throws {
        try await RunningService.run { running in
            let brake = try await Brake.engaged(running)
            let admin = try await running.client.makeKey(app: "shop", scopes: ["admin"])
            var seen: [String] = []
            var cursor = ""
            repeat {
                let page = try await admin.get("/v1/apps/shop/quarantine?limit=7\(cursor)").json
                #expect(page.number("total") == 20)
                for token in page["tokens"]?.arrayValue ?? [] {
                    seen.append(token.text("installation") ?? "?")
                    #expect(token.text("environment") == "production" && token.text("purpose") == "alert")
                    #expect(token.text("retired_at") != nil && token.text("quarantined_at") != nil && token["token"] == nil)
                }
                cursor = page.text("next_cursor").map { "&cursor=\($0)" } ?? ""
            } while !cursor.isEmpty
            #expect(Set(seen) == Set((1...20).map { installation($0).description }) && seen.count == 20)
            let app = try await running.app()
            let counted = try await running.pool.session { session in
                let store = QuarantineStore(session: session, app: app)
                return [try store.count(of: nil, upTo: 15), try store.count(of: [installation(1), installation(2)], upTo: 1)]
            }
            #expect(counted == [15, 1], "a count has a limit")

            let answer = try await admin.post(Self.restorePath)
            #expect(answer.status == 200)
            #expect(answer.json.number("restored") == 20)
            #expect(answer.json.number("superseded") == 0 && answer.json.number("remaining") == 0)
            #expect(try await brake.states() == ["active": 25, "quarantined": 0, "retired": 0])
            #expect(try await running.history(installation(1), ["token_restored"]).map(\.token) == ["\(hint(1)) production alert"])
            try await running.counted("tokens_restored_total", 20)
            #expect(try await admin.post(Self.restorePath).json.number("restored") == 0)
        }
    }

    @Test("A page that takes the last tokens is the last, and a cursor is good for its app alone") func lastPage() async throws {
        try await RunningService.run { running in
            _ = try await Brake.engaged(running)
            _ = try await running.client.makeApp("other")
            let reader = try await running.client.makeKey(app: nil, scopes: ["read"])
            let half = try await reader.get("/v1/apps/shop/quarantine?limit=10").json
            let cursor = try #require(half.text("next_cursor"))
            let rest = try await reader.get("/v1/apps/shop/quarantine?limit=10&cursor=\(cursor)").json
            #expect(rest["tokens"]?.arrayValue?.count == 10 && rest.text("next_cursor") == nil)
            #expect(try await reader.get("/v1/apps/other/quarantine?cursor=\(cursor)").code == "cursor_of_another_list")
        }
    }

    @Test("A restore never overwrites a later change") func laterChanges() async throws {
        try await RunningService.run { running in
            let brake = try await Brake.engaged(running)
            let admin = try await running.client.makeKey(app: "shop", scopes: ["admin"])
            // 1 has a newer token; 2 registered the very same one again; 3 is gone; 4's token lives in the other environment; 5's moved; 6
            // has none any more.
            try await brake.shop.register(installation(1), user: "ada", token: token(101))
            try await brake.shop.register(installation(2), user: "ada", token: token(2))
            #expect(try await brake.shop.delete("/v1/apps/shop/installations/\(installation(3))").status == 204)
            try await brake.shop.register(installation(4), user: "ada", token: token(4), environment: "sandbox")
            try await brake.shop.register(installation(105), user: "bob", token: token(5))
            _ = try await brake.shop.put("/v1/apps/shop/installations/\(installation(6))", #"{"user":"ada","tokens":[]}"#)
            let restored = try await admin.post(Self.restorePath).json
            #expect(restored.number("restored") == 14)
            #expect(restored.number("superseded") == 1)
            #expect(restored.number("remaining") == 0)
            #expect(try await brake.shop.record(installation(1)).tokenStates == ["\(hint(101)) active", "\(hint(1)) retired replaced"])
            #expect(try await brake.shop.record(installation(2)).tokenStates == ["\(hint(2)) active"])
            #expect(try await brake.shop.record(installation(4)).tokenStates == ["\(hint(4)) active", "\(hint(4)) retired replaced"])
            #expect(try await brake.shop.record(installation(5)).tokenStates.isEmpty)
            #expect(try await brake.shop.record(installation(105)).tokenStates == ["\(hint(5)) active"])
            #expect(try await brake.shop.record(installation(6)).tokenStates == ["\(hint(6)) retired removed"])
            #expect(try await running.history(installation(2), ["token_restored"]).isEmpty)
        }
    }

    @Test("Of two rejected tokens in one place, the newer one comes back") func newerToken() async throws {
        try await RunningService.run { running in
            let brake = try await Brake(running, count: 30)
            try await brake.report(.tokenRejected, 0..<10)
            try await brake.shop.register(installation(1), user: "ada", token: token(101))
            let second = try await running.sendAndTake(#"{"installation":"\#(installation(1))"}"#, with: brake.shop)
            try await running.report(.tokenRejected, of: second, status: 400, reason: "BadDeviceToken", sentAt: UnixClock.now() + 100)
            _ = try await running.completed(second.notification, brake.shop)
            try await brake.report(.tokenRejected, 10..<30)
            let admin = try await running.client.makeKey(app: "shop", scopes: ["admin"])
            let restored = try await admin.post(Self.restorePath, #"{"installations":["\#(installation(1))"]}"#).json
            #expect(restored.number("restored") == 1 && restored.number("superseded") == 0 && restored.number("remaining") == 0)
            #expect(try await brake.shop.record(installation(1)).tokenStates == ["\(hint(101)) active", "\(hint(1)) retired replaced"])
            #expect(try await brake.states()["quarantined"] == 9)
        }
    }

    @Test("Many restores at once bring each token back once") func racingRestores() async throws {
        try await RunningService.run { running in
            let brake = try await Brake.engaged(running)
            let admin = try await running.client.makeKey(app: "shop", scopes: ["admin"])
            let restored = try await withThrowingTaskGroup(of: Int64.self) { group in
                for _ in 1...4 { group.addTask { try await admin.post(Self.restorePath).json.number("restored") ?? -1 } }
                for number in 1...5 {
                    group.addTask {
                        try await brake.shop.register(installation(number), user: "ada", token: token(100 + number))
                        return 0
                    }
                }
                return try await group.reduce(0, +)
            }
            #expect((15...20).contains(restored))
            #expect(try await brake.states()["active"] == 25)
            #expect(try await running.count("SELECT count(*) FROM installation_history WHERE event = 'token_restored'") == restored)
        }
    }

    @Test("The service refuses bad requests, and they restore nothing") func badRequests() async throws {
        try await RunningService.run { running in
            let brake = try await Brake.engaged(running)
            let admin = try await running.client.makeKey(app: "shop", scopes: ["admin"])
            for (body, problem) in [
                (#"{"installations":[]}"#, "/installations too_short"), (#"{"installations":["x"]}"#, "/installations/0 invalid_id"),
                (#"{"installations":null}"#, "/installations wrong_type"), (#"{"all":true}"#, "/all unknown_field"),
            ] {
                let answer = try await admin.post(Self.restorePath, body)
                #expect(answer.status == 400)
                #expect(answer.problems == [problem])
            }
            for (query, code) in [
                ("limit=0", "out_of_range"), ("limit=1001", "out_of_range"), ("cursor=-1", "invalid_cursor"),
                ("cursor=!", "invalid_cursor"),
                ("colour=red", "unknown_parameter"), ("limit=1&limit=1", "repeated_parameter"),
            ] {
                let refused = try await admin.get("/v1/apps/shop/quarantine?\(query)")
                #expect(refused.status == 400 && refused.code == code, "\(query)")
            }
            #expect(try await brake.states()["quarantined"] == 20)
        }
    }

    @Test("After thirty days a token stays retired") func thirtyDays() async throws {
        try await RunningService.run { running in
            let brake = try await Brake.engaged(running)
            #expect(QuarantineStore.retentionDays == 30)
            try await running.execute(
                "UPDATE tokens SET quarantined_at = now() - interval '30 days 1 second' WHERE id <= (SELECT min(id) + 4 FROM tokens)")
            let step = try await running.pool.session { session in try Retention(session: session).sweep(.quarantine) }
            #expect(step.removed == 5)
            #expect(try await brake.states() == ["active": 5, "quarantined": 15, "retired": 5])
        }
    }
}
