import Postgres
import PushModel
import StrictJSON
import Testing
import TokenServiceApps
import TokenServiceSending
import TokenServiceUpkeep

@Suite("Receipts go in bounded steps", .serialized, .timeLimit(.minutes(5)))
struct ReceiptRetentionTests {
    @Test("A step takes no more than its batch, the counts stay, and the last step takes the notification along")
    func boundedSteps() async throws {
        try await RunningService.run(.init(without: { $0 is Relay })) { running in
            let shop = try await running.client.makeApp()
            let sent = try await shop.send(#"{"installation":"\#(installation(1))"}"#, headers: ["idempotency-key": "k"])
            let id = try #require(sent.json.text("id").flatMap { PushID($0) })
            let count = ReceiptRemoval.batch + 5
            try await running.execute(
                """
                INSERT INTO receipts (notification, number, position, token_id, installation, owner_epoch, environment, class, updated_at)
                SELECT \(id), n / 100, n % 100, n, gen_random_uuid(), 1, 'production', 'accepted', now()
                FROM generate_series(1, \(Int32(count))::int) AS n
                """)
            try await running.execute(
                """
                UPDATE notifications SET total = \(Int32(count)), state = 'completed',
                    outcomes = ARRAY[ROW('accepted', 200, NULL, \(Int32(count)))::outcome_count]
                """)
            let app = try await running.app()
            func step() async throws -> ReceiptRemoval.Count {
                try await running.pool.transaction { session in try ReceiptRemoval(session: session, app: app).removeBatch(of: [id]) }
            }
            let first = try await step()
            #expect(first.deliveries == ReceiptRemoval.batch && first.notifications == 0 && !first.isDone)
            let left = try await shop.status(id.description)
            #expect(left["counts"]?.number("total") == Int64(count) && left["counts"]?.number("accepted") == Int64(count))
            #expect(left["deliveries"]?.arrayValue?.count == 5)
            let last = try await step()
            #expect(last.deliveries == 5 && last.notifications == 1 && last.idempotencyRecords == 1 && last.isDone)
            #expect(try await running.count("SELECT count(*) FROM receipts") == 0)
            #expect(try await shop.get("/v1/apps/shop/notifications/\(id)").status == 404)
        }
    }

    @Test("Receipts of devices go in steps too, before the notifications that they belong to") func receiptsOfDevices() async throws {
        try await RunningService.run(.init(without: { $0 is Relay })) { running in
            let shop = try await running.client.makeApp()
            var ids: [PushID] = []
            for _ in 1...2 {
                let sent = try await shop.send(#"{"installation":"\#(installation(1))"}"#)
                ids.append(try #require(sent.json.text("id").flatMap { PushID($0) }))
            }
            let app = try await running.app()
            try await running.execute(
                """
                INSERT INTO device_receipts (notification, number, position, event, app_id, installation, owner_epoch, at)
                SELECT id, n / 100, n % 100, 'shown', \(app.id), gen_random_uuid(), 1, now()
                FROM notifications, generate_series(1, \(Int32(ReceiptRemoval.batch))::int) AS n
                """)
            var left: [Int64] = []
            for _ in 1...3 {
                let count = try await running.pool.transaction { [ids] session in
                    try ReceiptRemoval(session: session, app: app).removeBatch(of: ids)
                }
                left.append(try await running.count("SELECT count(*) FROM device_receipts"))
                #expect(count.isDone == (left.count == 3) && count.notifications == (left.count == 3 ? 2 : 0))
            }
            #expect(left == [Int64(ReceiptRemoval.batch), 0, 0])
        }
    }
}
