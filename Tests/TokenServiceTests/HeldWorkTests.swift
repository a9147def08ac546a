import Broker
import Postgres
import PushModel
import StrictJSON
import TestSupport
import Testing
import TokenService

@Suite("What is held is kept in the outbox, and goes when the hold is over", .serialized, .timeLimit(.minutes(5)))
struct HeldWorkTests {
    private static let heldBy: PostgresStatement =
        "SELECT count(*) FROM notifications WHERE held_by = $1::text::uuid AND published_at IS NULL"

    @Test func whatIsNotPublishedYetStaysInTheOutboxAndGoesWhenTheHoldIsLifted() async throws {
        try await RunningService.run { running in
            let (shop, chief) = try await running.operate()
            let other = try await running.client.makeApp("other")
            try await shop.register(installation(1), user: "ada", token: token(1))
            try await other.register(installation(2), user: "ada", token: token(2), app: "other")
            let hold = try await chief.setHold(#"{"all":true,"reason":"r"}"#)
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
                try await chief.liftHold(hold)
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
            let (shop, chief) = try await running.operate()
            let other = try await running.client.makeApp("other")
            try await shop.register(installation(1), user: "ada", token: token(1))
            try await other.register(installation(2), user: "ada", token: token(2), app: "other")
            _ = try await chief.setHold(#"{"all":true,"reason":"r"}"#)
            for _ in 1...10 { #expect(try await shop.send(#"{"user":"ada"}"#).status == 202) }
            #expect(try await other.send(#"{"user":"ada"}"#, app: "other").status == 202)
        }
    }

    @Test func chunksThatAreDueUnderAHoldWaitAndGoAtItsOwnEnd() async throws {
        try await RunningService.run { running in
            let (shop, chief) = try await running.operate()
            try await shop.register(installation(1), user: "ada", token: token(1))
            let id = try await Self.waitingChunk(running, shop)
            _ = try await chief.setHold(#"{"notification":"\#(id)","reason":"r","ttl_seconds":3600}"#)
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
            let (shop, chief) = try await running.operate()
            try await shop.register(installation(1), user: "ada", token: token(1))
            let chunked = try await Self.waitingChunk(running, shop)
            _ = try await chief.setHold(#"{"all":true,"reason":"r"}"#)
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
                try await running.count("SELECT count(*) FROM notifications WHERE held_by IS NOT NULL AND free_from = expires_at") >= 1)
            try await running.execute(
                "UPDATE notifications SET expires_at = now(), free_from = now() WHERE id = $1::text::uuid", [.text(ids[1])])
            try await ended(ids[1], as: "expired")
        }
    }

    @Test func whatIsHeldBeforeItsWalkExpiresAsWell() async throws {
        try await RunningService.run { running in
            let (shop, chief) = try await running.operate()
            try await shop.register(installation(1), user: "ada", token: token(1))
            let hold = try await chief.setHold(#"{"lane":"soon","reason":"r"}"#)
            let id = try #require(try await shop.send(#"{"users":["ada"]}"#).json.text("id"))
            _ = try await eventually { try await running.count(Self.heldBy, [.text(hold)]) == 1 ? true : nil }
            try await running.execute("UPDATE notifications SET expires_at = now(), free_from = now()")
            let status = try await eventually {
                let status = try await shop.status(id)
                return status.text("completed_at") == nil ? nil : status
            }
            #expect(status.text("state") == "expired" && status["counts"]?.number("total") == 0, "\(status)")
        }
    }

    @Test func manyThatAreHeldAreGivenBackInBatchesAndAgainHeldByAnotherHold() async throws {
        try await RunningService.run { running in
            let (shop, chief) = try await running.operate()
            try await shop.register(installation(1), user: "ada", token: token(1))
            let first = try await chief.setHold(#"{"lane":"now","reason":"first"}"#)
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
            let second = try await chief.setHold(#"{"all":true,"reason":"second"}"#)
            try await chief.liftHold(first)
            _ = try await eventually { try await held(by: first) == 0 ? true : nil }
            _ = try await eventually { try await held(by: second) == 1 ? true : nil }
            _ = try await eventually {
                try await running.count("SELECT count(*) FROM notifications WHERE published_at IS NULL") == 1 ? true : nil
            }
            try await running.jobs { jobs in
                try await chief.liftHold(second)
                #expect(try PushJob(decoding: try await jobs.next().body).notification.description == id)
            }
        }
    }
}
