import Broker
import Postgres
import PushModel
import StrictJSON
import TestSupport
import Testing
import TokenServiceSending
import TokenServiceUpkeep

@Suite("Erasing a user from what is sent to many", .serialized, .timeLimit(.minutes(5)))
struct FanOutPrivacyTests {
    /// No fan-out goes on but what the test asks for.
    private static let still = RunningService.Options(without: { $0 is Relay || $0 is Housekeeper })

    private static func send(_ to: String, with shop: APITestClient) async throws -> PushID {
        let answer = try await shop.send(to)
        return try #require(answer.json.text("id").flatMap { PushID($0) }, "\(answer.json)")
    }

    @Test("An erasure removes the user from every list and keeps the others") func everyList() async throws {
        try await RunningService.run(Self.still) { running in
            let shop = try await running.client.makeApp()
            for (number, user) in [(1, "ada"), (2, "grace")] {
                try await shop.register(installation(number), user: user, token: token(number))
            }
            _ = try await shop.put("/v1/apps/shop/users/ada/quiet-hours", #"{"begins_at":"22:00","ends_at":"07:00"}"#)
            for to in [
                #"{"users":["ada","grace"]}"#, #"{"installations":["\#(installation(1))","\#(installation(2))"]}"#,
                #"{"tokens":["\#(token(99))","\#(token(1))","\#(token(2))"]}"#, #"{"users":["ada"]}"#,
                #"{"installations":["\#(installation(1))"]}"#, #"{"tokens":["\#(token(1))","\#(token(98))"]}"#,
            ] { _ = try await Self.send(to, with: shop) }
            #expect(
                try await running.count("SELECT count(*) FROM targets WHERE token IS NOT NULL") == 3,
                "the service does not store a token that no installation holds")
            let erased = try await running.client.erase("ada").json["erased"]
            #expect(erased?.number("quiet_hours") == 1)
            #expect(erased?.number("notifications") == 3)
            try await running.expectNothing(of: "ada", shells: 1)
            #expect(
                try await running.count(
                    """
                    SELECT count(*) FROM targets t JOIN fan_outs f USING (notification) WHERE t.place <> f.entries
                    """) == 0, "only the last place of each list is left")
            try await running.another { other in
                let jobs = try await other.jobs(.soon) { signal in try await signal.next(3).map { try PushJob(decoding: $0.body) } }
                #expect(jobs.flatMap(\.deliveries).map(\.installation) == [installation(2), installation(2), installation(2)])
            }
        }
    }

    /// The places of the list stay, and one that has nothing to wait for at this moment is not over.
    @Test("A fan-out that is under way goes on") func fanOutGoesOn() async throws {
        try await RunningService.run(Self.still) { running in
            let shop = try await running.client.makeApp()
            for (number, user) in [(1, "ada"), (2, "grace")] {
                try await shop.register(installation(number), user: user, token: token(number))
            }
            let names = ["ada"] + (1..<FanOutStore.entriesOfPage).map { "nobody-\($0)" } + ["grace"]
            let id = try await Self.send(#"{"users":[\#(names.map { "\"\($0)\"" }.joined(separator: ","))]}"#, with: shop)
            try await running.pool.transaction { session in
                let store = FanOutStore(session: session)
                let audience = try #require(try store.fanOut(of: id))
                let page = try store.page(of: audience, names: DeliveryNames(id), now: UnixClock.now())
                #expect(page.count == 1 && !page.isLast)
                try store.commit(page, of: audience, leaseSeconds: 0, now: UnixClock.now())
            }
            // It is under way and ends by itself, without a receipt.
            #expect(try await running.client.erase("ada").json["erased"]?.number("deliveries") == 0)
            try await running.expectNothing(of: "ada", shells: 1)
            try await running.another { other in
                let job = try await other.jobs(.soon) { signal in try PushJob(decoding: try await signal.next().body) }
                #expect(job.deliveries.map(\.installation) == [installation(2)])
                try await other.report(.accepted, of: job, status: 200)
                let counts = try await other.completed(id, shop).json["counts"]
                #expect(counts?.number("total") == 2 && counts?.number("accepted") == 1 && counts?.number("fenced") == 1)
                try await other.expectConsistentCounters()
            }
        }
    }

    @Test("An erasure keeps the targets of other users on the same device") func sharedDevice() async throws {
        try await RunningService.run(Self.still) { running in
            let shop = try await running.client.makeApp()
            try await shop.register(installation(9), user: "joan", token: token(9))
            for user in ["grace", "ada", "eve"] {
                try await shop.register(installation(1), user: user, token: token(1))
                _ = try await Self.send(#"{"installations":["\#(installation(1))","\#(installation(9))"]}"#, with: shop)
                _ = try await Self.send(#"{"tokens":["\#(token(1))","\#(token(9))"]}"#, with: shop)
            }
            _ = try await running.client.erase("ada")
            let left: PostgresQuery = """
                SELECT count(*) FROM fan_outs f WHERE NOT EXISTS (SELECT FROM targets t WHERE t.notification = f.notification AND place = 1)
                """
            #expect(try await running.count(left) == 2)
            #expect(try await running.count("SELECT count(*) FROM targets WHERE place = 1 AND owner_epoch IS NOT NULL") == 4)
            #expect(try await running.count("SELECT count(*) FROM targets WHERE place = 2 AND owner_epoch IS NOT NULL") == 6)
        }
    }

    /// A counter names no user; a receipt that is removed must not be missing in it, nor come back.
    @Test("Counters stay exact, and removed receipts do not come back", arguments: ["all", "failures"])
    func exactCounters(receipts: String) async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            for (number, user) in [(1, "ada"), (2, "grace")] {
                try await shop.register(installation(number), user: user, token: token(number))
            }
            let answer = try await shop.send(#"{"all":true}"#, more: #","receipts":"\#(receipts)""#)
            let id = try #require(answer.json.text("id").flatMap { PushID($0) })
            let job = try await running.jobs(.bulk) { signal in try PushJob(decoding: try await signal.next().body) }
            var (adas, graces) = (job, job)
            adas.deliveries.removeAll { $0.installation != installation(1) }
            graces.deliveries.removeAll { $0.installation != installation(2) }
            try await running.report(.throttled, of: adas, final: false, status: 429, retryAt: UnixClock.now() + 60_000)
            _ = try await eventually { try await running.count("SELECT count(*) FROM receipts") == 1 ? true : nil }
            #expect(try await running.client.erase("ada").json["erased"]?.number("deliveries") == 1)
            try await running.report(
                .tokenGone, of: adas, status: 410, reason: "Unregistered", timestamp: UnixClock.now() + 1000, attempt: 2)
            try await running.report(.accepted, of: graces, status: 200)
            let status = try await running.completed(id, shop).json
            #expect(status["counts"]?.number("total") == 2)
            #expect(status["counts"]?.number("token_gone") == 1)
            #expect(status["counts"]?.number("accepted") == 1)
            try await running.expectNothing(of: "ada", shells: 1)
            #expect(try await running.count("SELECT count(*) FROM receipts") == (receipts == "all" ? 1 : 0))
        }
    }

    @Test("The service removes a large notification in bounded steps") func boundedSteps() async throws {
        try await RunningService.run(Self.still) { running in
            let shop = try await running.client.makeApp()
            try await shop.register(installation(1), user: "ada", token: token(1))
            let id = try await Self.send(#"{"all":true}"#, with: shop)
            let batch = ReceiptRemoval.batch
            try await running.execute(
                """
                INSERT INTO jobs (notification, number, app_id, lane, locale, due_at, members, free_from)
                SELECT \(id), number, 1, 'bulk', '', now(), '\\x0000000000000001', now() FROM generate_series(0, \(batch)) AS number
                """)
            try await running.execute("UPDATE notifications SET total = \(batch) + 1, pending = \(batch) + 1 WHERE id = \(id)")
            try await running.execute("INSERT INTO notification_variants VALUES (\(id), 'de', '{}')")
            let app = try await running.app()
            func step() async throws -> ReceiptRemoval.Count {
                try await running.pool.transaction { session in try ReceiptRemoval(session: session, app: app).removeBatch(of: [id]) }
            }
            let first = try await step()
            #expect(!first.isDone && first.notifications == 0)
            #expect(try await running.count("SELECT count(*) FROM jobs") == 1)
            let last = try await step()
            #expect(last.isDone && last.notifications == 1)
            for table: PostgresQuery in [
                "SELECT count(*) FROM jobs", "SELECT count(*) FROM notification_variants", "SELECT count(*) FROM notifications",
            ] { #expect(try await running.count(table) == 0) }
        }
    }

    @Test("The export shows quiet hours, and lists without their other entries") func exportedLists() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            for (number, user) in [(1, "ada"), (2, "grace"), (3, "ada")] {
                try await shop.register(installation(number), user: user, token: token(number))
            }
            let job = try await running.jobs(.soon) { signal in
                _ = try await Self.send(#"{"users":["ada","grace"]}"#, with: shop)
                return try PushJob(decoding: try await signal.next().body)
            }
            try await running.report(.accepted, of: job, status: 200)
            _ = try await eventually { try await running.count("SELECT count(*) FROM receipts") == 3 ? true : nil }
            _ = try await shop.put("/v1/apps/shop/users/ada/quiet-hours", #"{"begins_at":"22:00","ends_at":"07:00"}"#)
            // What she has left since is hers as well.
            _ = try await shop.post("/v1/apps/shop/installations/\(installation(3))/logout")
            let answer = try await running.client.post("/v1/apps/shop/users/ada/export")
            #expect(answer.json["quiet_hours"]?.text("ends_at") == "07:00")
            let sent = try #require(answer.json["notifications"]?.arrayValue)
            #expect(sent.map { $0.text("id") } == [job.notification.description])
            #expect(sent[0]["to"]?["users"]?.arrayValue?.map(\.stringValue) == ["ada"])
            let devices = sent[0]["deliveries"]?.arrayValue?.compactMap { $0.text("installation") } ?? []
            #expect(Set(devices) == [installation(1).description, installation(3).description])
            #expect(!String(decoding: answer.bytes, as: UTF8.self).contains("grace"))
        }
    }
}
