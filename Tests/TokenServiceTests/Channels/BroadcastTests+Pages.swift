import Broker
import Postgres
import PushModel
import StrictJSON
import TestSupport
import Testing

@testable import TokenService
@testable import TokenServiceOutcomes
@testable import TokenServiceRegistry
@testable import TokenServiceSending

/// The pages of a broadcast with the fallback; the test makes each.
extension BroadcastTests {
    /// The broadcast has its outcome before the devices' jobs are made.
    @Test("A newer broadcast waits until the devices of the fallback have their outcomes, and goes then") func pages() async throws {
        try await Self.withoutRelay { running, shop in
            let first = try await Self.send(Self.state(1, more: #","fallback":"activities""#), by: shop)
            try await Self.makePage(of: first, running)
            try await Self.accept(first, job: 0, running)
            let second = try await Self.send(Self.state(2), by: shop)
            #expect(try await running.count("SELECT count(*) FROM update_targets WHERE sending = \(first) AND is_waiting") == 1)
            try await Self.makePage(of: first, running)
            try await Self.accept(first, job: 1, running)
            #expect(try await running.count("SELECT count(*) FROM update_targets WHERE sending = \(first)") == 1, "more devices may follow")
            try await Self.makePage(of: first, running)
            #expect(try await shop.get("/v1/apps/shop/notifications/\(first)").json.text("state") == "completed")
            #expect(try await running.count("SELECT count(*) FROM update_targets WHERE sending IS NULL AND is_waiting") == 1)
            #expect(
                try await running.count("SELECT count(*) FROM fan_outs WHERE notification = \(second) AND free_from <= now()") == 1)

            // One that is cancelled between two pages has no outcome to come.
            let third = try await Self.send(Self.state(3, more: #","fallback":"activities""#), by: shop)
            try await Self.makeFirstPage(of: third, running)
            try await Self.accept(third, job: 0, running)
            #expect(try await shop.delete("/v1/apps/shop/notifications/\(third)").status == 200)
            let fourth = try await Self.send(Self.state(4), by: shop)
            try await Self.makeFirstPage(of: fourth, running)
            #expect(try await running.count("SELECT count(*) FROM update_targets WHERE sending = \(fourth)") == 1)
        }
    }

    @Test("A broadcast that expires between two pages of its fan-out comes to its end, also if a newer one waits")
    func expiresBetweenPages() async throws {
        try await Self.withoutRelay { running, shop in
            let first = try await Self.send(Self.state(1, more: #","fallback":"activities""#), by: shop)
            try await Self.makePage(of: first, running)
            try await Self.send(Self.state(2), by: shop)
            try await running.execute("UPDATE notifications SET expires_at = now() - interval '1 second' WHERE id = \(first)")
            try await Self.makePage(of: first, running)
            #expect(try await running.count("SELECT count(*) FROM fan_outs WHERE notification = \(first) AND ended_at IS NOT NULL") == 1)
        }
    }

    @Test(
        "An end of which APNs accepted nothing ends no activity, also if no outcome completes it",
        arguments: ["expired", "cancelled", "sent", "unclear"])
    func endNotSent(fate: String) async throws {
        try await Self.withoutRelay { running, shop in
            let end = try await Self.send(Self.state(1, event: "end", more: #","fallback":"activities""#), by: shop)
            try await Self.makePage(of: end, running)
            #expect(try await shop.get("/v1/apps/shop/activities/watch?user=ada").json.text("state") == "ended")
            try await Self.settle(end, job: 0, as: fate == "sent" ? .accepted : fate == "unclear" ? .unknown : .expired, running)
            if fate == "cancelled" {
                #expect(try await shop.delete("/v1/apps/shop/notifications/\(end)").status == 200)
            } else {
                try await running.execute("UPDATE notifications SET expires_at = now() - interval '1 second' WHERE id = \(end)")
                // Its acceptance finds that the end is not under way any more.
                try await Self.send(Self.state(2), by: shop)
                try await Self.makePage(of: end, running)
            }
            #expect(try await running.count("SELECT count(*) FROM notifications WHERE id = \(end) AND completed_at IS NOT NULL") == 1)
            let state = try await shop.get("/v1/apps/shop/activities/watch?user=ada").json.text("state")
            #expect(state == (["sent", "unclear"].contains(fate) ? "ended" : "active"))
        }
    }

    @Test("A second end of a channel goes to the activities that the first one was to end") func secondEnd() async throws {
        try await Self.withoutRelay { running, shop in
            let fallback = #","fallback":"activities""#
            let first = try await Self.send(Self.state(1, event: "end", more: fallback), by: shop)
            try await Self.makePage(of: first, running)
            #expect(try await shop.delete("/v1/apps/shop/notifications/\(first)").status == 200)
            let second = try await Self.send(Self.state(2, event: "end", more: fallback), by: shop)
            // The second page is read before the first one is committed.
            let pages = try await running.pool.transaction { session in
                let (store, now) = (FanOutStore(session: session), UnixClock.now())
                var audience = try #require(try store.fanOut(of: second))
                let page = try store.page(of: audience, names: DeliveryNames(second), now: now)
                audience.checkpoint = page.end
                return [page, try store.page(of: audience, after: page, names: DeliveryNames(second), now: now)]
            }
            #expect(pages.map(\.count) == [1, 1])
        }
    }

    @Test("A page of the fallback reads a bounded number of activities that the system ended, and the next one goes on behind them")
    func pastActivities() async throws {
        try await Self.withoutRelay { running, shop in
            let statements: [PostgresQuery] = [
                """
                INSERT INTO activities (app_id, owner, id, channel, started_at)
                SELECT app_id, 'grace', n::text, ordinal, now() - interval '1 day'
                FROM update_targets, generate_series(1, 150000) AS n WHERE id = 'game'
                """,
                """
                INSERT INTO activities (app_id, owner, id, channel, started_at, reported_at)
                SELECT app_id, 'ada', 'ride', ordinal, now(), now() FROM update_targets WHERE id = 'game'
                """,
                """
                INSERT INTO tokens (app_id, environment, purpose, token, installation, ordinal, registered_at)
                SELECT app_id, 'production', 'activity:ride', sha256('ride'), id, ordinal, now() FROM installations
                """,
                "UPDATE activities SET started_at = now() - interval '1 day' WHERE id = 'watch'",
                "ANALYZE update_targets",
            ]
            for statement in statements { try await running.execute(statement) }
            let id = try await Self.send(Self.state(1, more: #","fallback":"activities""#), by: shop)
            try await running.pool.transaction { session in
                for (name, value) in TokenServiceConfiguration.planning { try session.simple("SET LOCAL \(name) = \(value)") }
                // A session does not count what its workers read.
                try session.simple("SET LOCAL max_parallel_workers_per_gather = 0")
                func read(_ body: () throws -> Void) throws -> Int64 {
                    let before = try session.entriesReadHere(of: "activities_by_channel")
                    try body()
                    return try session.entriesReadHere(of: "activities_by_channel") - before
                }
                let (store, now) = (FanOutStore(session: session), UnixClock.now())
                var audience = try #require(try store.fanOut(of: id))
                var (found, reads): ([Int], [Int64]) = ([], [])
                for _ in 1...4 {
                    reads.append(
                        try read {
                            let page = try store.page(of: audience, names: DeliveryNames(id), now: now)
                            found.append(page.count)
                            audience.advance(past: page)
                        })
                }
                #expect(found == [1, 0, 1, 0])
                // The activities are read to find those that live, to find the page's end, and for the page.
                #expect(reads[1] <= 200_010 && reads[2] <= 150_010 && reads[3] == 0, "\(reads) entries read")
            }
        }
    }

    @Test("A broadcast that is cancelled while it waits holds no later one back, nor the channel's deletion", arguments: ["end", "update"])
    func cancelledWhileItWaits(event: String) async throws {
        try await Self.withoutRelay { running, shop in
            let waiting = try await Self.send(Self.state(1, event: event), by: shop)
            #expect(try await shop.delete("/v1/apps/shop/notifications/\(waiting)").json.text("state") == "cancelled")
            #expect(try await running.count("SELECT count(*) FROM update_targets WHERE is_waiting") == 0)
            let later = try await Self.send(Self.state(2), by: shop)
            try await Self.makeFirstPage(of: later, running)
            #expect(try await running.count("SELECT count(*) FROM jobs WHERE notification = \(later)") == 1)
        }
    }

    /// With the channel `game`, which one activity follows that has an update token.
    private static func withoutRelay(_ body: @escaping @Sendable (RunningService, APITestClient) async throws -> Void) async throws {
        try await RunningService.run(.init(without: { $0 is Relay })) { running in
            let shop = try await running.client.makeApp()
            try await running.insertChannel()
            try await shop.register(installation(1), user: "ada", token: token(1))
            let report = #"{"token":"\#(token(2))","channel":"game"}"#
            #expect(try await shop.put("/v1/apps/shop/installations/\(installation(1))/activities/watch", report).status == 200)
            try await body(running, shop)
        }
    }

    /// When it is its turn.
    private static func makeFirstPage(of notification: PushID, _ running: RunningService) async throws {
        _ = try await eventually { () -> Bool? in
            do {
                try await makePage(of: notification, running)
                return true
            } catch is FanOutTakenOver {
                return nil
            }
        }
    }

    private static func makePage(of notification: PushID, _ running: RunningService) async throws {
        try await running.pool.transaction { session in
            let (store, now) = (FanOutStore(session: session), UnixClock.now())
            let audience = try #require(try store.fanOut(of: notification))
            let page = try store.page(of: audience, names: DeliveryNames(notification), now: now)
            try store.commit(page, of: audience, leaseSeconds: 60, now: now)
        }
    }

    private static func accept(_ notification: PushID, job: Int, _ running: RunningService) async throws {
        try await settle(notification, job: job, as: .accepted, running)
    }

    private static func settle(_ notification: PushID, job: Int, as outcome: OutcomeClass, _ running: RunningService) async throws {
        let id = DeliveryNames(notification).id(job: job, position: 0)
        let delivery = OutcomeEvent.Delivery(
            id: id, notification: notification, installation: .lowest, attempt: 1, status: outcome == .accepted ? 200 : nil)
        let event = OutcomeEvent(
            id: .random(), source: "/push/dispatcher/test", time: UnixClock.now(), app: try #require(AppSlug("shop")), outcome: outcome,
            isFinal: true, deliveries: [delivery])
        _ = try await OutcomeApplication(pool: running.pool).apply(OutcomeBatch([event]))
    }
}
