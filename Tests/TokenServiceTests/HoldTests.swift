import Broker
import Postgres
import PushModel
import StrictJSON
import TestSupport
import Testing
import TokenService

@Suite("Holds: set, told, listed, lifted; what is held is kept", .serialized, .timeLimit(.minutes(2)))
struct HoldTests {
    private static let path = "/v1/apps/shop/holds"
    private static let heldBy: PostgresStatement =
        "SELECT count(*) FROM notifications WHERE held_by = $1::text::uuid AND published_at IS NULL"

    /// Every hold and every lifting on the control stream at this moment, in its order.
    private func told(_ running: RunningService) async throws -> [ControlMessage] {
        let marker = PushID.random()
        let message = OutgoingMessage(
            exchange: "", routingKey: running.topology.controlStream, messageID: .random(), contentType: ControlMessage.contentType,
            body: ControlMessage.marker(id: marker).encoded())
        #expect(await running.service.publisher.publish([message], deadline: .seconds(30)) == [.confirmed])
        return try await running.tap(.stream(running.topology.controlStream, prefetch: 100)) { signal in
            var told: [ControlMessage] = []
            while true {
                let message = try ControlMessage(decoding: try await signal.next().body)
                switch message {
                case .marker(let id) where id == marker: return told
                case .hold, .unhold: told.append(message)
                default: continue
                }
            }
        }
    }

    private static func scope(_ message: ControlMessage) -> HoldScope? {
        if case .hold(_, let scope, _, _) = message { scope } else { nil }
    }

    /// Who may set and lift them in the app.
    private func operate(_ running: RunningService) async throws -> (shop: APITestClient, operator: APITestClient) {
        (try await running.client.makeApp(), try await running.client.makeKey(app: "shop", scopes: ["admin"]))
    }

    private func set(_ body: String, _ client: APITestClient, at path: String = path) async throws -> String {
        let answer = try await client.post(path, body)
        #expect(answer.status == 201, "\(answer.json)")
        #expect(answer.json.text("state") == "live" && answer.json.text("fence") == "effective", "\(answer.json)")
        let id = try #require(answer.json.text("id"))
        #expect(answer.header("location") == "\(path)/\(id)")
        return id
    }

    private func lift(_ id: String, _ client: APITestClient, at path: String = path) async throws {
        let answer = try await client.delete("\(path)/\(id)")
        #expect(answer.status == 200 && answer.json.text("state") == "lifted", "\(answer.json)")
        #expect(answer.json.text("fence") == "effective")
    }

    @Test func aHoldIsOnTheControlStreamBeforeTheAnswerAndStaysInTheRecordsWhenItIsLifted() async throws {
        try await RunningService.run { running in
            let (shop, chief) = try await operate(running)
            let app = try #require(AppSlug("shop"))
            let bulk = try await set(#"{"lane":"bulk","reason":"wrong prices","ttl_seconds":3600}"#, chief)
            #expect(try await told(running).compactMap(Self.scope) == [.appLane(app, .bulk)])
            let all = try await set(#"{"all":true,"reason":"everything"}"#, chief)
            let everywhere = try await set(#"{"lane":"now","reason":"Apple is ill"}"#, running.client, at: "/v1/admin/holds")
            #expect(try await Set(told(running).compactMap(Self.scope)) == [.appLane(app, .bulk), .app(app), .lane(.now)])
            for _ in 1...2 { try await lift(bulk, chief) }
            #expect(
                try await told(running).contains {
                    if case .unhold(let id, _) = $0 { id.description == bulk } else { false }
                })
            func ids(_ client: APITestClient, _ path: String) async throws -> [String] {
                let list = try await client.get(path).json["holds"]
                return (list?.arrayValue ?? []).compactMap { $0.text("id") }
            }
            #expect(try await ids(shop, Self.path) == [everywhere, all, bulk], "the newest first, those over every app among them")
            #expect(try await ids(running.client, "/v1/admin/holds?state=live") == [everywhere, all])
            #expect(try await ids(chief, Self.path + "?state=lifted") == [bulk])
            let record = try await shop.get("\(Self.path)/\(bulk)").json
            let key = try #require(chief.key?.split(separator: "_").dropFirst().first).description
            #expect(record.text("set_by") == key && record.text("lifted_by") == key && record.text("reason") == "wrong prices")
            #expect(record.text("lifted_at") != nil && record.text("expires_at") != nil)
            #expect(try await chief.delete("\(Self.path)/\(everywhere)").status == 404, "an app's operator lifts no one else's")
            try await lift(everywhere, running.client, at: "/v1/admin/holds")
            try await lift(all, running.client, at: "/v1/admin/holds")
            #expect(try await running.count("SELECT count(*) FROM holds WHERE lifted_by IS NOT NULL") == 3)
        }
    }

    @Test func pagesFollowEachOther() async throws {
        try await RunningService.run { running in
            let (_, chief) = try await operate(running)
            var ids: [String] = []
            for number in 1...5 { ids.insert(try await set(#"{"all":true,"reason":"\#(number)"}"#, chief), at: 0) }
            var read: [String] = []
            var cursor: String?
            repeat {
                let page = try await chief.get(Self.path + "?limit=2&state=live" + (cursor.map { "&cursor=\($0)" } ?? "")).json
                read += (page["holds"]?.arrayValue ?? []).compactMap { $0.text("id") }
                cursor = page.text("next_cursor")
                if let cursor {
                    #expect(try await chief.get(Self.path + "?limit=2&cursor=\(cursor)").code == "cursor_of_another_list")
                }
            } while cursor != nil
            #expect(read == ids)
        }
    }

    @Test func whatIsNoHoldIsRefused() async throws {
        try await RunningService.run { running in
            let (shop, chief) = try await operate(running)
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
                let answer = try await chief.post(Self.path, body)
                #expect(answer.status == 400)
                #expect(answer.problems.sorted() == problems.sorted(), "\(body)")
            }
            let everywhere = try await running.client.post("/v1/admin/holds", #"{"notification":"\#(PushID.random())","reason":"r"}"#)
            #expect(everywhere.problems == ["/notification unsupported_value"])
            #expect(try await shop.post(Self.path, #"{"all":true,"reason":"r"}"#).status == 403)
            #expect(try await chief.delete("\(Self.path)/\(PushID.random())").status == 404)
            #expect(try await running.count("SELECT count(*) FROM holds") == 0)
            try await running.execute(
                """
                INSERT INTO holds (id, reason, set_at, set_by, told_at)
                SELECT gen_random_uuid(), 'one of many', now(), 'k', now() FROM generate_series(1, 1000)
                """)
            let answer = try await chief.post(Self.path, #"{"all":true,"reason":"r"}"#)
            #expect(answer.status == 409 && answer.code == "too_many_holds")
        }
    }

    @Test func whatIsNotPublishedYetStaysInTheOutboxAndGoesWhenTheHoldIsLifted() async throws {
        try await RunningService.run { running in
            let (shop, chief) = try await operate(running)
            let other = try await running.client.makeApp("other")
            try await shop.register(installation(1), user: "ada", token: token(1))
            try await other.register(installation(2), user: "ada", token: token(2), app: "other")
            let hold = try await set(#"{"all":true,"reason":"r"}"#, chief)
            try await running.jobs { jobs in
                let resolved = try #require(try await shop.send(#"{"user":"ada"}"#).json.text("id"))
                let walked = try #require(try await shop.send(#"{"users":["ada"]}"#, more: #","lane":"soon""#).json.text("id"))
                _ = try await eventually {
                    try await running.count(Self.heldBy, [.text(hold)]) == 2 ? true : nil
                }
                // Nobody else's waits behind it.
                let free = try #require(try await other.send(#"{"user":"ada"}"#, app: "other").json.text("id"))
                #expect(try PushJob(decoding: try await jobs.next().body).notification.description == free)
                #expect(try await running.count("SELECT count(*) FROM chunks") == 0, "a held audience is not walked")
                for id in [resolved, walked] { #expect(try await shop.status(id).text("state") == "accepted") }
                try await lift(hold, chief)
                #expect(try PushJob(decoding: try await jobs.next().body).notification.description == resolved)
                let job = try await running.jobs(.soon) { soon in try PushJob(decoding: try await soon.next().body) }
                #expect(job.notification.description == walked)
                _ = try await eventually {
                    try await running.count("SELECT count(*) FROM holds WHERE released_at IS NOT NULL") == 1 ? true : nil
                }
            }
        }
    }

    @Test func whatIsHeldIsNoBacklogThatKeepsOthersOut() async throws {
        // Nothing is put aside or measured meanwhile.
        try await RunningService.run(.init(settings: ["BACKLOG_LIMIT": "5", "RELAY_INTERVAL_MS": "60000"])) { running in
            let (shop, chief) = try await operate(running)
            let other = try await running.client.makeApp("other")
            try await shop.register(installation(1), user: "ada", token: token(1))
            try await other.register(installation(2), user: "ada", token: token(2), app: "other")
            _ = try await set(#"{"all":true,"reason":"r"}"#, chief)
            for _ in 1...10 { #expect(try await shop.send(#"{"user":"ada"}"#).status == 202) }
            #expect(try await other.send(#"{"user":"ada"}"#, app: "other").status == 202)
        }
    }

    @Test func chunksThatAreDueUnderAHoldWaitAndGoAtItsOwnEnd() async throws {
        try await RunningService.run { running in
            let (shop, chief) = try await operate(running)
            try await shop.register(installation(1), user: "ada", token: token(1))
            let id = try await Self.waitingChunk(running, shop)
            _ = try await set(#"{"notification":"\#(id)","reason":"r","ttl_seconds":3600}"#, chief)
            try await running.execute("UPDATE chunks SET due_at = now(), lease_until = now()")
            _ = try await eventually { try await running.count("SELECT count(*) FROM chunks WHERE held_by IS NOT NULL") == 1 ? true : nil }
            #expect(
                try await running.count("SELECT count(*) FROM chunks c JOIN holds h ON h.id = c.held_by AND h.ends_at = c.lease_until") == 1
            )
            try await running.jobs(.soon) { jobs in
                // Its hour is over.
                try await running.execute("UPDATE holds SET ends_at = now()")
                try await running.execute("UPDATE chunks SET lease_until = now()")
                #expect(try PushJob(decoding: try await jobs.next().body).notification.description == id)
            }
        }
    }

    /// A walked notification of which one chunk is made and due later: its user has quiet hours.
    private static func waitingChunk(_ running: RunningService, _ shop: APITestClient) async throws -> String {
        try await running.execute(
            """
            INSERT INTO quiet_hours (app_id, owner, begins_at, ends_at, updated_at)
            SELECT id, 'ada', (now() AT TIME ZONE 'UTC' - interval '1 hour')::time, (now() AT TIME ZONE 'UTC' + interval '1 hour')::time,
                now() FROM apps
            """)
        let id = try #require(try await shop.send(#"{"users":["ada"]}"#).json.text("id"))
        _ = try await eventually { try await running.count("SELECT count(*) FROM chunks WHERE due_at > now()") == 1 ? true : nil }
        return id
    }

    @Test func whatIsHeldIsStillCancelledAndStillExpires() async throws {
        try await RunningService.run { running in
            let (shop, chief) = try await operate(running)
            try await shop.register(installation(1), user: "ada", token: token(1))
            let chunked = try await Self.waitingChunk(running, shop)
            _ = try await set(#"{"all":true,"reason":"r"}"#, chief)
            try await running.execute("UPDATE chunks SET due_at = now(), lease_until = now()")
            try await running.execute("DELETE FROM quiet_hours")
            var ids: [String] = []
            for _ in 1...2 { ids.append(try #require(try await shop.send(#"{"user":"ada"}"#).json.text("id"))) }
            func held() async throws -> Int64 {
                try await running.count(
                    """
                    SELECT (SELECT count(*) FROM notifications WHERE held_by IS NOT NULL AND published_at IS NULL)
                        + (SELECT count(*) FROM chunks WHERE held_by IS NOT NULL AND published_at IS NULL)
                    """)
            }
            _ = try await eventually { try await held() == 3 ? true : nil }
            func ended(_ id: String, as outcome: String) async throws {
                let status = try await eventually {
                    let status = try await shop.status(id)
                    return status.text("completed_at") == nil ? nil : status
                }
                #expect(status["counts"]?.number(outcome) == 1, "\(status)")
            }
            for id in [chunked, ids[0]] {
                #expect(try await shop.delete("/v1/apps/shop/notifications/\(id)").json.number("stoppable") == 1)
                try await ended(id, as: "cancelled")
            }
            #expect(
                try await running.count("SELECT count(*) FROM notifications WHERE held_by IS NOT NULL AND lease_until = expires_at") >= 1)
            try await running.execute(
                "UPDATE notifications SET expires_at = now(), lease_until = now() WHERE id = $1::text::uuid", [.text(ids[1])])
            try await ended(ids[1], as: "expired")
        }
    }

    @Test func whatADeadProcessLeftUntoldIsToldAndWhatLastsIsToldAgain() async throws {
        try await RunningService.run { running in
            let (_, chief) = try await operate(running)
            try await running.execute(
                """
                INSERT INTO holds (id, app_id, reason, set_at, set_by, told_at, lifted_at, lifted_by) SELECT
                    uuid(lpad(number::text, 32, '0')), id, 'r', now() - interval '2 days', repeat('0', 16), told, lifted, CASE WHEN lifted IS NOT NULL THEN repeat('0', 16) END
                FROM apps, (VALUES (1, NULL, NULL), (2, now() - interval '25 hours', NULL), (3, now(), now() - interval '3 seconds'), (4, now(), NULL))
                    AS e (number, told, lifted)
                """)
            let expected = Set([1, 2, 3].map { PushID(high: 0, low: $0) })
            _ = try await eventually {
                let told = try await told(running).compactMap { message -> PushID? in
                    switch message {
                    case .hold(let id, _, _, let at): at > UnixClock.now() - 3_600_000 ? id : nil
                    case .unhold(let id, _): id
                    default: nil
                    }
                }
                return Set(told) == expected ? true : nil
            }
            _ = try await eventually {
                try await running.count(
                    "SELECT count(*) FROM holds WHERE told_at IS NULL OR lift_told_at IS NULL AND lifted_at IS NOT NULL")
                    == 0 ? true : nil
            }
            let states = try await chief.get(Self.path).json["holds"]?.arrayValue ?? []
            #expect(states.allSatisfy { $0.text("fence") == "effective" }, "\(states)")
        }
    }

    @Test func manyThatAreHeldAreGivenBackInBatchesAndAgainHeldByAnotherHold() async throws {
        try await RunningService.run { running in
            let (shop, chief) = try await operate(running)
            try await shop.register(installation(1), user: "ada", token: token(1))
            let first = try await set(#"{"lane":"now","reason":"first"}"#, chief)
            let id = try #require(try await shop.send(#"{"user":"ada"}"#).json.text("id"))
            func held(by hold: String) async throws -> Int64 {
                try await running.count(Self.heldBy, [.text(hold)])
            }
            _ = try await eventually { try await held(by: first) == 1 ? true : nil }
            // More than one batch, and they have expired: each gets its end as soon as it is given back.
            try await running.execute(
                """
                INSERT INTO notifications SELECT (jsonb_populate_record(n, jsonb_build_object('id', gen_random_uuid(),
                    'expires_at', now(), 'held_by', $1::text, 'total', 0, 'pending', 0))).*
                FROM notifications n CROSS JOIN generate_series(1, 2500) WHERE n.id = $2::text::uuid
                """, [.text(first), .text(id)])
            let second = try await set(#"{"all":true,"reason":"second"}"#, chief)
            try await lift(first, chief)
            _ = try await eventually { try await held(by: first) == 0 ? true : nil }
            _ = try await eventually { try await held(by: second) == 1 ? true : nil }
            _ = try await eventually {
                try await running.count("SELECT count(*) FROM notifications WHERE published_at IS NULL") == 1 ? true : nil
            }
            try await running.jobs { jobs in
                try await lift(second, chief)
                #expect(try PushJob(decoding: try await jobs.next().body).notification.description == id)
            }
        }
    }
}
