import Broker
import Postgres
import PushModel
import StrictJSON
import TestSupport
import Testing

@testable import TokenService

/// An update goes again to a device that comes after it, as a notification that its sender does not know.
extension ActivityLineTests {
    /// The first update is under way to the phone, and a copy of it waits for the tablet.
    private static func withCopy(
        _ body: @Sendable (RunningService, APITestClient, Signal<ReceivedMessage>, PushJob) async throws -> Void
    ) async throws {
        try await withPhone { running, shop in
            try await shop.register(installation(2), user: "ada", token: token(11))
            #expect(try await report("ride", token: token(3), on: 1, by: shop) == 200)
            try await running.jobs { signal in
                let update = try await send(change("ride", 1), by: shop)
                let job = try PushJob(decoding: try await signal.next().body)
                #expect(job.notification == update)
                try await running.sending(update, shop)
                #expect(try await report("ride", token: token(5), on: 2, by: shop) == 200)
                #expect(try await running.count("SELECT count(*) FROM notifications WHERE copy_of = \(update) AND state = 'accepted'") == 1)
                // A relay that has just claimed the copy asks for its turn. A hold or an outcome of now would concern its next claim.
                let waiting: PostgresQuery =
                    """
                    SELECT count(*) FROM fan_outs f JOIN notifications n ON n.id = f.notification
                    WHERE n.copy_of = \(update) AND f.due_at > now()
                    """
                _ = try await eventually { try await running.count(waiting) == 1 ? true : nil }
                try await body(running, shop, signal, job)
            }
        }
    }

    @Test("An update that is cancelled does not go to a device that came after it") func cancelledCopy() async throws {
        try await Self.withCopy { running, shop, signal, job in
            let update = job.notification
            let answer = try await shop.delete("/v1/apps/shop/notifications/\(update)")
            #expect(answer.json.text("state") == "cancelled" && answer.json.text("fence") == "effective")
            #expect(try await running.count("SELECT count(*) FROM notifications WHERE copy_of = \(update) AND state = 'cancelled'") == 1)
            try await running.report(.cancelled, of: job)
            _ = try await eventually { try await shop.status(update.description).text("completed_at") }
            let next = try await Self.send(Self.change("ride", 2), by: shop)
            let after = try PushJob(decoding: try await signal.next().body)
            #expect(after.notification == next && Set(after.deliveries.map(\.token.hex)) == [token(3), token(5)])
            #expect(
                try await running.count(
                    "SELECT count(*) FROM jobs j JOIN notifications n ON n.id = j.notification WHERE n.copy_of = \(update)") == 0)
        }
    }

    @Test("A cancellation of an update whose place its copy has taken stops the copy, and the control stream knows") func copyInPlace()
        async throws
    {
        try await Self.withCopy { running, shop, signal, job in
            let update = job.notification
            try await running.report(
                .throttled, of: job, final: false, status: 429, reason: "TooManyRequests", retryAt: UnixClock.now() + 600_000)
            let copy = try PushJob(decoding: try await signal.next().body)
            #expect(copy.notification != update && Set(copy.deliveries.map(\.token.hex)) == [token(3), token(5)])
            #expect(try await Self.state(update, shop) == "cancelled")
            // The copy is under way, and a newer update waits for its end.
            _ = try await Self.send(Self.change("ride", 2), by: shop)
            let answer = try await shop.delete("/v1/apps/shop/notifications/\(update)")
            #expect(answer.json.text("state") == "cancelled" && answer.json.text("fence") == "effective")
            #expect(try await Self.state(copy.notification, shop) == "cancelled")
            #expect(
                try await running.count(
                    "SELECT count(*) FROM cancellations WHERE notification = \(copy.notification) AND published_at IS NOT NULL") == 1)
        }
    }

    @Test("A cancellation of an update whose copy has come to its end stops the later copies, and a replay of the copy") func laterCopy()
        async throws
    {
        try await Self.withCopy { running, shop, signal, job in
            let update = job.notification
            try await running.report(
                .throttled, of: job, final: false, status: 429, reason: "TooManyRequests", retryAt: UnixClock.now() + 600_000)
            let copy = try PushJob(decoding: try await signal.next().body)
            #expect(copy.notification != update && copy.deliveries.count == 2)
            try await DeadLetterTests.giveUp(copy, running)
            _ = try await running.completed(copy.notification, shop)
            let answer = try await shop.delete("/v1/apps/shop/notifications/\(update)")
            #expect(answer.json.text("state") == "cancelled" && answer.json.text("fence") == "effective")
            #expect(try await DeadLetterTests.replay(running)["deliveries"]?.number("cancelled") == 2)
            // Another update token of the tablet.
            #expect(try await Self.report("ride", token: token(6), on: 2, by: shop) == 200)
            #expect(try await running.count("SELECT count(*) FROM notifications WHERE copy_of = \(update)") == 1)
        }
    }

    /// The copy waits without a job until the hold is lifted. Then its job names the update: a dispatcher looks for holds on that, too.
    private static func expectHeld(
        copyOf update: PushID, by hold: String, _ chief: APITestClient, _ running: RunningService, _ signal: Signal<ReceivedMessage>
    ) async throws {
        let held: PostgresQuery =
            """
            SELECT count(*) FROM fan_outs f JOIN notifications n ON n.id = f.notification
            WHERE n.copy_of = \(update) AND f.held_by = \(hold)::text::uuid
            """
        let made: PostgresQuery =
            "SELECT count(*) FROM jobs j JOIN notifications n ON n.id = j.notification WHERE n.copy_of = \(update)"
        let isHeld = try await eventually { () -> Bool? in
            if try await running.count(held) == 1 { return true }
            return try await running.count(made) == 0 ? nil : false
        }
        #expect(isHeld)
        try await chief.liftHold(hold)
        let copy = try PushJob(decoding: try await signal.next().body)
        #expect(copy.notification != update && copy.original == update)
        #expect(Set(copy.deliveries.map(\.token.hex)) == [token(3), token(5)])
    }

    @Test("A hold on an update keeps its copy, too, and the copy's job names the update") func heldCopy() async throws {
        try await Self.withCopy { running, shop, signal, job in
            #expect(job.original == nil)
            let chief = try await running.client.makeKey(app: "shop", scopes: ["admin"])
            let hold = try await chief.setHold(#"{"notification":"\#(job.notification)","reason":"wrong"}"#)
            try await running.report(.accepted, of: job, status: 200)
            try await Self.expectHeld(copyOf: job.notification, by: hold, chief, running, signal)
        }
    }

    @Test("A hold on an update keeps a copy whose fan-out has begun and waits for the activity") func heldClaimedCopy() async throws {
        try await Self.withCopy { running, shop, signal, job in
            let chief = try await running.client.makeKey(app: "shop", scopes: ["admin"])
            // When the lock is let go, it is the copy's turn.
            let hold = try await running.holding("UPDATE activities SET sending = NULL") {
                try await running.execute(
                    """
                    UPDATE fan_outs f SET free_from = now(), due_at = now() FROM notifications n
                    WHERE n.id = f.notification AND n.copy_of = \(job.notification)
                    """)
                try await Self.waiting(1, running)
                return try await chief.setHold(#"{"notification":"\#(job.notification)","reason":"wrong"}"#)
            }
            try await Self.expectHeld(copyOf: job.notification, by: hold, chief, running, signal)
        }
    }
}
