import Broker
import Postgres
import PushModel
import StrictJSON
import TestSupport
import Testing
import TokenServiceSending

@Suite("What became of a notification, device by device", .serialized, .timeLimit(.minutes(5)))
struct DeliveryListTests {
    private static func rows(_ client: APITestClient, _ path: String, _ query: String) async throws -> [[String]] {
        var pages: [[String]] = []
        var cursor: String?
        repeat {
            let words = [query, cursor.map { "cursor=\($0)" } ?? ""].filter { !$0.isEmpty }.joined(separator: "&")
            let answer = try await client.get("\(path)?\(words)")
            try #require(answer.status == 200, "\(words)")
            pages.append((answer.json["deliveries"]?.arrayValue ?? []).map { "\($0.text("hint") ?? "") \($0.text("state") ?? "")" })
            cursor = answer.json.text("next_cursor")
        } while cursor != nil
        return pages
    }

    @Test("Every receipt once, page by page, by state, reason and installation; tokens in full for those who may")
    func filters() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            for number in 1...5 { try await shop.register(installation(number), user: "ada", token: token(number)) }
            let job = try await running.sendAndTake(#"{"user":"ada"}"#, with: shop)
            func part(_ numbers: Int...) -> PushJob {
                var part = job
                part.deliveries = job.deliveries.filter { delivery in numbers.contains { token($0) == delivery.token.hex } }
                return part
            }
            try await running.report(.accepted, of: part(1, 2), status: 200)
            try await running.report(.rejected, of: part(3), status: 400, reason: "PayloadEmpty")
            try await running.report(.failed, of: part(4), status: 500, reason: "InternalServerError")
            _ = try await eventually { try await running.number("pending", "SELECT pending FROM notifications") == 1 ? true : nil }
            let path = "/v1/apps/shop/notifications/\(job.notification)/deliveries"
            let all = [
                "\(hint(1)) accepted", "\(hint(2)) accepted", "\(hint(3)) rejected", "\(hint(4)) failed", "\(hint(5)) pending",
            ]
            for limit in [1, 2, 5, 100] {
                let pages = try await Self.rows(shop, path, "limit=\(limit)")
                #expect(pages.flatMap { $0 } == all, "\(limit)")
            }
            #expect(try await Self.rows(shop, path, "state=accepted").flatMap { $0 } == Array(all[0..<2]))
            #expect(try await Self.rows(shop, path, "state=pending").flatMap { $0 } == [all[4]])
            #expect(try await Self.rows(shop, path, "reason=PayloadEmpty").flatMap { $0 } == [all[2]])
            #expect(try await Self.rows(shop, path, "installation=\(installation(4))").flatMap { $0 } == [all[3]])
            #expect(try await Self.rows(shop, path, "installation=\(installation(4))&state=accepted").flatMap { $0 } == [])
            let full = try await shop.get("\(path)?limit=1&tokens=full").json
            #expect(full["deliveries"]?[0]?.text("token") == token(1) && full.text("receipts") == "all")
            let reader = try await running.client.makeKey(app: "shop", scopes: ["read"])
            #expect(try await reader.get("\(path)?tokens=full").status == 403)
            #expect(try await reader.get(path).json["deliveries"]?[0]?["token"] == nil)
            let reasons = try await shop.status(job.notification.description)["reasons"]?.arrayValue?.map(\.written)
            #expect(
                reasons == [
                    #"{"class":"accepted","status":200,"count":2}"#,
                    #"{"class":"failed","status":500,"reason":"InternalServerError","count":1}"#,
                    #"{"class":"rejected","status":400,"reason":"PayloadEmpty","count":1}"#,
                ])
            #expect(try await shop.get("/v1/apps/shop/notifications/\(PushID.random())/deliveries").status == 404)
            for (query, code) in [
                ("state=sent", "unsupported_value"), ("installation=x", "invalid_id"), ("reason=", "out_of_range"),
                ("user=ada", "unknown_parameter"),
            ] { #expect(try await shop.get("\(path)?\(query)").code == code, "\(query)") }
        }
    }

    @Test("Of a large audience only what failed is listed, and the answer says so; the counters count all")
    func failuresOnly() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            try await running.fill(3, app: try await running.app())
            let job = try await running.jobs(.bulk) { signal in
                _ = try await shop.send(#"{"all":true}"#)
                return try PushJob(decoding: try await signal.next().body)
            }
            var (good, bad) = (job, job)
            bad.deliveries = [job.deliveries[0]]
            good.deliveries.removeFirst()
            try await running.report(.tokenGone, of: bad, status: 410, reason: "Unregistered", timestamp: UnixClock.now() + 1000)
            try await running.report(.accepted, of: good, status: 200)
            let status = try await running.completed(job.notification, shop).json
            #expect(status.text("receipts") == "failures" && status["to"]?.written == #"{"kind":"all"}"#)
            #expect(
                status["reasons"]?.arrayValue?.map(\.written) == [
                    #"{"class":"accepted","status":200,"count":2}"#,
                    #"{"class":"token_gone","status":410,"reason":"Unregistered","count":1}"#,
                ])
            let page = try await shop.get("/v1/apps/shop/notifications/\(job.notification)/deliveries").json
            #expect(page.text("receipts") == "failures")
            #expect(page["deliveries"]?.arrayValue?.compactMap { $0.text("reason") } == ["Unregistered"])
        }
    }

    @Test("A rare state gives short pages, and loses nothing", arguments: ["all", "failures"])
    func boundedWork(receipts: String) async throws {
        try await RunningService.run(.init(without: { $0 is Relay })) { running in
            let shop = try await running.client.makeApp()
            let id = try #require(
                try await shop.send(#"{"installation":"\#(installation(1))"}"#, more: #","receipts":"\#(receipts)""#).json.text("id"))
            let count = 2 * DeliveryReading.scannedPerPage + 100
            try await running.execute(
                """
                INSERT INTO receipts (notification, number, position, token_id, installation, owner_epoch, environment, class, updated_at)
                SELECT \(id)::text::uuid, n / 100, n % 100, n, gen_random_uuid(), 1, 'production',
                    CASE WHEN n < \(count)::int - 1 THEN 'accepted' ELSE 'rejected' END, now()
                FROM generate_series(0, \(count)::int - 1) AS n
                """)
            let pages = try await Self.rows(shop, "/v1/apps/shop/notifications/\(id)/deliveries", "state=rejected&limit=10")
            #expect(pages.map(\.count) == [0, 0, 1])
        }
    }

    @Test("Deliveries that are under way are listed first, as far as they are listed, and each page has what follows")
    func underWay() async throws {
        try await RunningService.run(.init(without: { $0 is Relay })) { running in
            let shop = try await running.client.makeApp()
            try await running.fill(2 * PushJob.maximumDeliveries, app: try await running.app())
            let id = try #require(try await shop.send(#"{"all":true}"#, more: #","receipts":"all""#).json.text("id"))
            // 20 jobs with 100 members each: the first 10 are over, and of each of the others so is the first member.
            try await running.execute(
                """
                INSERT INTO jobs (notification, number, app_id, lane, locale, due_at, members, free_from, ended)
                SELECT \(id)::text::uuid, n, 1, 'bulk', '', now(), (SELECT string_agg(int8send(id), ''::bytea ORDER BY id) FROM (
                        SELECT id FROM tokens ORDER BY id OFFSET n % 2 * 100 LIMIT 100) AS t), now(),
                    CASE WHEN n < 10 THEN ~B'0'::bit(100) ELSE B'1'::bit(100) END
                FROM generate_series(0, 19) AS n
                """)
            try await running.execute(
                """
                INSERT INTO receipts (notification, number, position, token_id, installation, owner_epoch, environment, class, updated_at)
                SELECT j.notification, j.number, m.position, m.token_id, t.installation, 1, 'production', 'accepted', now()
                FROM jobs j CROSS JOIN LATERAL members_of(j) AS m JOIN tokens t ON t.id = m.token_id WHERE m.has_ended
                """)
            try await running.execute(
                """
                UPDATE notifications SET state = 'sending', total = 2000, pending = 990,
                    outcomes = ARRAY[ROW('accepted', NULL, NULL, 1010)::outcome_count]
                WHERE id = \(id)::text::uuid
                """)
            let status = try await shop.status(id)
            let states = status["deliveries"]?.arrayValue?.map { $0.text("state") }
            #expect(states == Array(repeating: "pending", count: 990) + Array(repeating: "accepted", count: 10))
            #expect(status["counts"]?.number("accepted") == 1010 && status["counts"]?.number("pending") == 990)
            let path = "/v1/apps/shop/notifications/\(id)/deliveries"
            let all = try await Self.rows(shop, path, "limit=300").flatMap { $0 }
            #expect(all.count == 2000 && all.count { $0.hasSuffix("pending") } == 990)
            #expect(try await Self.rows(shop, path, "state=pending&limit=1000").map(\.count) == [990])
            let device = try #require(status["deliveries"]?[0]?.text("installation"))
            let own = try await Self.rows(shop, path, "installation=\(device)&limit=3")
            #expect(own.map(\.count) == [3, 3, 3, 1] && own.flatMap { $0 }.count { $0.hasSuffix("pending") } == 5)
        }
    }
}
