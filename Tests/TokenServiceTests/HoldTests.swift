import Broker
import Postgres
import PushModel
import StrictJSON
import TestSupport
import Testing
import TokenService
import TokenServiceApps
import TokenServiceSending

@Suite("Holds: set, published, listed, lifted; held work is kept", .serialized, .timeLimit(.minutes(5)))
struct HoldTests {
    /// Every hold and every lifting on the control stream at this moment, in its order.
    private func published(_ running: RunningService) async throws -> [ControlMessage] {
        let marker = PushID.random()
        let message = OutgoingMessage(
            exchange: "", routingKey: running.topology.controlStream, messageID: .random(), contentType: ControlMessage.contentType,
            body: ControlMessage.marker(id: marker).encoded())
        #expect(await running.service.publisher.publish([message], deadline: .seconds(30)) == [.confirmed])
        return try await running.tap(.stream(running.topology.controlStream, prefetch: 100)) { signal in
            var messages: [ControlMessage] = []
            while true {
                let message = try ControlMessage(decoding: try await signal.next().body)
                switch message {
                case .marker(let id) where id == marker: return messages
                case .hold, .unhold: messages.append(message)
                default: continue
                }
            }
        }
    }

    private static func scope(_ message: ControlMessage) -> HoldScope? {
        if case .hold(_, let scope, _, _) = message { scope } else { nil }
    }

    @Test("A hold is on the control stream before the answer, and stays in the records when it is lifted")
    func setAndLifted() async throws {
        try await RunningService.run { running in
            let (shop, chief) = try await running.operate()
            let app = try #require(AppSlug("shop"))
            let bulk = try await chief.setHold(#"{"lane":"bulk","reason":"wrong prices","ttl_seconds":3600}"#)
            #expect(try await published(running).compactMap(Self.scope) == [.appLane(app, .bulk)])
            let all = try await chief.setHold(#"{"all":true,"reason":"everything"}"#)
            let everywhere = try await running.client.setHold(#"{"lane":"now","reason":"Apple is ill"}"#, at: "/v1/admin/holds")
            #expect(try await Set(published(running).compactMap(Self.scope)) == [.appLane(app, .bulk), .app(app), .lane(.now)])
            for _ in 1...2 { try await chief.liftHold(bulk) }
            #expect(
                try await published(running).contains {
                    if case .unhold(let id, _) = $0 { id.description == bulk } else { false }
                })
            func ids(_ client: APITestClient, _ path: String) async throws -> [String] {
                let list = try await client.get(path).json["holds"]
                return (list?.arrayValue ?? []).compactMap { $0.text("id") }
            }
            #expect(
                try await ids(shop, APITestClient.holds) == [everywhere, all, bulk], "the newest first, those over every app among them")
            #expect(try await ids(running.client, "/v1/admin/holds?state=live") == [everywhere, all])
            #expect(try await ids(chief, APITestClient.holds + "?state=lifted") == [bulk])
            let record = try await shop.get("\(APITestClient.holds)/\(bulk)").json
            let key = try #require(chief.key?.split(separator: "_").dropFirst().first).description
            #expect(record.text("set_by") == key && record.text("lifted_by") == key && record.text("reason") == "wrong prices")
            #expect(record.text("lifted_at") != nil && record.text("expires_at") != nil)
            #expect(try await chief.delete("\(APITestClient.holds)/\(everywhere)").status == 404, "an app's operator lifts no one else's")
            try await running.client.liftHold(everywhere, at: "/v1/admin/holds")
            try await running.client.liftHold(all, at: "/v1/admin/holds")
            #expect(try await running.count("SELECT count(*) FROM holds WHERE lifted_by IS NOT NULL") == 3)
        }
    }

    @Test("Pages follow each other") func consecutivePages() async throws {
        try await RunningService.run { running in
            let (_, chief) = try await running.operate()
            var ids: [String] = []
            for number in 1...5 { ids.insert(try await chief.setHold(#"{"all":true,"reason":"\#(number)"}"#), at: 0) }
            var read: [String] = []
            var cursor: String?
            repeat {
                let page = try await chief.get(APITestClient.holds + "?limit=2&state=live" + (cursor.map { "&cursor=\($0)" } ?? "")).json
                read += (page["holds"]?.arrayValue ?? []).compactMap { $0.text("id") }
                cursor = page.text("next_cursor")
                if let cursor {
                    #expect(try await chief.get(APITestClient.holds + "?limit=2&cursor=\(cursor)").code == "cursor_of_another_list")
                }
            } while cursor != nil
            #expect(read == ids)
        }
    }

    @Test("The service refuses an invalid hold") func invalidHold() async throws {
        try await RunningService.run { running in
            let (shop, chief) = try await running.operate()
            for (body, problems) in [
                (#"{"reason":"r"}"#, ["/all missing"]), (#"{"all":true}"#, ["/reason missing"]),
                (#"{"all":true,"lane":"now","reason":"r"}"#, ["/lane conflict"]),
                (#"{"all":false,"reason":"r"}"#, ["/all unsupported_value"]),
                (#"{"lane":"fast","reason":"r"}"#, ["/lane unsupported_value"]),
                (#"{"notification":"x","reason":"r"}"#, ["/notification invalid_id"]),
                (#"{"notification":"\#(PushID.random())","reason":"r"}"#, ["/notification unknown_notification"]),
                (#"{"all":true,"reason":"r","ttl_seconds":0}"#, ["/ttl_seconds out_of_range"]),
                (#"{"all":true,"reason":"r","expires_at":"2020-01-01T00:00:00Z"}"#, ["/expires_at out_of_range"]),
                (#"{"all":true,"reason":"r","expires_at":"tomorrow"}"#, ["/expires_at invalid_time"]),
                (
                    #"{"all":true,"reason":"r","expires_at":"2020-01-01T00:00:00Z","ttl_seconds":5}"#,
                    ["/expires_at out_of_range", "/ttl_seconds conflict"]
                ),
                (#"{"all":true,"reason":"r","until":"now"}"#, ["/until unknown_field"]),
            ] {
                let answer = try await chief.post(APITestClient.holds, body)
                #expect(answer.status == 400)
                #expect(answer.problems.sorted() == problems.sorted(), "\(body)")
            }
            let everywhere = try await running.client.post("/v1/admin/holds", #"{"notification":"\#(PushID.random())","reason":"r"}"#)
            #expect(everywhere.problems == ["/notification unsupported_value"])
            #expect(try await shop.post(APITestClient.holds, #"{"all":true,"reason":"r"}"#).status == 403)
            #expect(try await chief.delete("\(APITestClient.holds)/\(PushID.random())").status == 404)
            #expect(try await running.count("SELECT count(*) FROM holds") == 0)
        }
    }

    @Test("An app has 100 holds in force at most, and takes no place of another app or of the operators") func manyHolds() async throws {
        try await RunningService.run { running in
            let (_, chief) = try await running.operate()
            let blog = "/v1/apps/blog/holds"
            _ = try await running.client.makeApp("blog")
            let all = #"{"all":true,"reason":"r"}"#
            let lane = #"{"lane":"bulk","reason":"r"}"#
            // Lifted and expired ones do not count.
            try await running.execute(
                """
                INSERT INTO holds (id, app_id, reason, set_at, set_by, published_at, ends_at, lifted_at, lifted_by, released_at)
                SELECT gen_random_uuid(), a.id, 'one of many', now(), 'k', now(), CASE WHEN n % 3 = 1 THEN now() ELSE 'infinity' END,
                    CASE WHEN n % 3 = 2 THEN now() END, CASE WHEN n % 3 = 2 THEN 'k' END, CASE WHEN n % 3 = 2 THEN now() END
                FROM apps a, generate_series(1, 297) AS n WHERE a.slug = 'shop'
                """)
            // Of two at the same time, one takes the last place.
            async let one = chief.post(APITestClient.holds, all)
            async let other = chief.post(APITestClient.holds, all)
            let statuses = try await [one.status, other.status].sorted()
            #expect(statuses == [201, 409])
            let refused = try await chief.post(APITestClient.holds, all)
            #expect(refused.status == 409 && refused.code == "too_many_holds")
            #expect(refused.json.text("detail")?.hasPrefix("100 ") == true, "\(refused.json)")
            #expect(try await running.client.post(blog, all).status == 201)
            let everywhere = try await running.client.setHold(lane, at: "/v1/admin/holds")
            try await running.execute(
                """
                INSERT INTO holds (id, reason, set_at, set_by, published_at)
                SELECT gen_random_uuid(), 'one of many', now(), 'k', now() FROM generate_series(1, 999)
                """)
            let full = try await running.client.post("/v1/admin/holds", lane)
            #expect(full.status == 409 && full.code == "too_many_holds")
            #expect(try await running.client.post(blog, all).status == 201)
            try await running.client.liftHold(everywhere, at: "/v1/admin/holds")
            #expect(try await running.client.post("/v1/admin/holds", lane).status == 201)
        }
    }

    @Test("An app sets 1,000 holds within 73 hours at most: dispatchers remember the lifted ones as well") func holdsInALoop()
        async throws
    {
        try await RunningService.run { running in
            let (_, chief) = try await running.operate()
            let all = #"{"all":true,"reason":"r"}"#
            for (count, hoursAgo) in [(1000, 74), (999, 72)] {
                try await running.execute(
                    """
                    INSERT INTO holds (id, app_id, reason, set_at, set_by, published_at, lifted_at, lifted_by, released_at)
                    SELECT overlay(first_id_at(m.at)::text PLACING lpad(to_hex(n), 12, '0') FROM 25)::uuid, a.id, 'one of many', m.at, 'k',
                        m.at, m.at, 'k', m.at
                    FROM apps a, (SELECT now() - \(hoursAgo) * interval '1 hour' AS at) AS m, generate_series(1, \(count)) AS n
                    """)
            }
            try await chief.liftHold(try await chief.setHold(all))
            let refused = try await chief.post(APITestClient.holds, all)
            #expect(refused.status == 409 && refused.code == "too_many_holds")
            #expect(refused.json.text("detail")?.hasPrefix("1000 holds were set ") == true, "\(refused.json)")
        }
    }

    @Test("The list of an app passes over the holds of other apps") func listOfOneApp() async throws {
        try await RunningService.run(.init(without: { $0 is Relay })) { running in
            for app in ["shop", "blog"] { _ = try await running.client.makeApp(app) }
            let blog = try await running.app("blog")
            // The newest are of `shop`.
            let statements: [PostgresQuery] = [
                """
                INSERT INTO holds (id, app_id, reason, set_at, set_by, published_at)
                SELECT overlay(first_id_at(now() - interval '2 hours')::text PLACING lpad(to_hex(n), 12, '0') FROM 25)::uuid,
                    CASE WHEN n < 4 THEN \(blog.id)::bigint END, 'one of few', now(), 'k', now()
                FROM generate_series(1, 5) AS n
                """,
                """
                INSERT INTO holds (id, app_id, reason, set_at, set_by, published_at, lifted_at, lifted_by, released_at)
                SELECT overlay(first_id_at(now() - interval '1 hour')::text PLACING lpad(to_hex(n), 12, '0') FROM 25)::uuid, a.id,
                    'one of many', now(), 'k', now(), now(), 'k', now()
                FROM apps a, generate_series(1, 100000) AS n WHERE a.slug = 'shop'
                """, "ANALYZE holds",
            ]
            for statement in statements { try await running.execute(statement) }
            let (own, all, visited) = try await running.pool.transaction { session in
                for (name, value) in TokenServiceConfiguration.planning { try session.simple("SET LOCAL \(name) = \(value)") }
                let before = try session.pagesVisitedHere(of: "holds")
                let own = try HoldStore(session: session, app: blog).page(state: nil, after: nil, limit: 100)
                let visited = try session.pagesVisitedHere(of: "holds") - before
                return (own, try HoldStore(session: session, app: nil).page(state: nil, after: nil, limit: 100), visited)
            }
            #expect(own.holds.count == 5 && own.last == nil)
            #expect(own.holds.map(\.id) == own.holds.map(\.id).sorted(by: >))
            #expect(all.holds.count == 100 && all.holds.allSatisfy { $0.reason == "one of many" })
            #expect(visited <= 100, "\(visited) pages visited")
        }
    }

    @Test("The service publishes holds that a dead process left unpublished, and publishes lasting holds again")
    func republishedHolds() async throws {
        try await RunningService.run { running in
            let (_, chief) = try await running.operate()
            try await running.execute(
                """
                INSERT INTO holds (id, app_id, reason, set_at, set_by, published_at, lifted_at, lifted_by) SELECT
                    uuid(lpad(number::text, 32, '0')), id, 'r', now() - interval '2 days', repeat('0', 16), published, lifted, CASE
                        WHEN lifted IS NOT NULL THEN repeat('0', 16) END
                FROM apps, (VALUES (1, NULL, NULL), (2, now() - interval '25 hours', NULL), (3, NULL, now() - interval '3 seconds'), (4,
                    now(), NULL))
                    AS e (number, published, lifted)
                """)
            let expected = Set([1, 2, 3].map { PushID(high: 0, low: $0) })
            _ = try await eventually {
                let ids = try await published(running).compactMap { message -> PushID? in
                    switch message {
                    case .hold(let id, _, _, let at): at > UnixClock.now() - 3_600_000 ? id : nil
                    case .unhold(let id, _): id
                    default: nil
                    }
                }
                return Set(ids) == expected ? true : nil
            }
            _ = try await eventually {
                try await running.count("SELECT count(*) FROM holds WHERE published_at IS NULL") == 0 ? true : nil
            }
            let states = try await chief.get(APITestClient.holds).json["holds"]?.arrayValue ?? []
            #expect(states.allSatisfy { $0.text("fence") == "effective" }, "\(states)")
        }
    }
}
