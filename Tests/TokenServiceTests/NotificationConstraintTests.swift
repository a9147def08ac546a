import Postgres
import PushModel
import StrictJSON
import TestSupport
import Testing
import TokenService

@Suite("What the database refuses of notifications and receipts, whichever program asks", .serialized, .timeLimit(.minutes(5)))
struct NotificationConstraintTests {
    private static let violations = [
        "UPDATE notifications SET lane = 'later'", "UPDATE notifications SET priority = 3", "UPDATE notifications SET on_unknown = 'ask'",
        "UPDATE notifications SET state = 'done'",
        "INSERT INTO cancellations (notification, at, reason) SELECT id, now(), 'bored' FROM notifications",
        "UPDATE notifications SET receipts = 'some'", "UPDATE notifications SET collapse_id = repeat('c', 65)",
        "UPDATE notifications SET payload = convert_to(repeat('p', 5121), 'UTF8')", "UPDATE notifications SET supersede_key = ''",
        "UPDATE notifications SET supersede_key = repeat('s', 65)", "UPDATE fan_outs SET lifetime_ms = 0",
        "UPDATE notifications SET total = -1, pending = -1", "UPDATE notifications SET pending = total + 1",
        "UPDATE notifications SET target_installation = gen_random_uuid()", "UPDATE fan_outs SET target = 'nobody'",
        "UPDATE fan_outs SET entries = NULL", "UPDATE fan_outs SET not_before = now(), local_time = now()",
        "INSERT INTO targets (notification, place, app_id) SELECT id, 1, app_id FROM notifications", "UPDATE receipts SET class = 'lost'",
        "UPDATE receipts SET environment = 'staging'", "UPDATE receipts SET position = 100", "UPDATE jobs SET members = ''",
        "UPDATE jobs SET members = convert_to(repeat('m', 801), 'UTF8')",
    ]

    @Test("Every value that has no meaning is refused as a violation") func values() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            try await shop.register(installation(1), user: "ada", token: token(1))
            let job = try await running.sendAndTake(#"{"user":"ada"}"#, with: shop)
            try await running.report(.accepted, of: job, status: 200)
            _ = try await running.completed(job.notification, shop)
            _ = try await shop.send(#"{"users":["ada"]}"#)
            for violation in Self.violations {
                let refusal = await #expect(throws: PostgresError.self, "\(violation)") {
                    try await running.pool.session { session in try session.simple(violation) }
                }
                #expect(refusal?.sqlState == .checkViolation, "\(violation)")
            }
        }
    }
}
