import Logging
import Postgres
import PushModel
import StrictJSON
import TestSupport
import Testing

@testable import TokenServiceApps
@testable import TokenServiceEvents

@Suite("An event that can never be read or stored stops no other", .serialized, .timeLimit(.minutes(5)))
struct EventFaultTests {
    @Test("A row that cannot be read is left out beside others, and the next ones take its place; rows of which none can be read wait")
    func unreadable() async throws {
        try await RunningService.run(.init(without: { $0 is EventFeed })) { running in
            let shop = try await running.client.makeApp()
            let app = try await running.app()
            for number in 1...12 { try await shop.register(installation(number), user: "ada", token: token(number)) }
            @Sendable func read(_ limit: Int) async throws -> (entries: [EventStore.Entry], unreadable: [Int64]) {
                try await running.pool.session { session in
                    var unreadable: [Int64] = []
                    let entries = try EventStore(session: session).entries(
                        of: .installations, after: 0, upTo: .max, apps: [app.id], limit: limit,
                        onUnreadable: { row, _ in unreadable.append(row) })
                    return (entries, unreadable)
                }
            }
            let all = try await read(500).entries.map(\.position)
            #expect(all.count >= 12)
            let bad = all[0]
            try await running.execute("UPDATE installation_history SET token_hint = 'x', environment = NULL WHERE id = \(bad)")
            let good = Array(all.dropFirst())
            let whole = try await read(500)
            #expect(whole.entries.map(\.position) == good)
            #expect(whole.unreadable == [bad])
            // As many as the caller asked for: fewer would be the end of the log.
            for limit in [1, 2, 10] { #expect(try await read(limit).entries.map(\.position) == Array(good.prefix(limit)), "\(limit)") }
            try await running.execute("UPDATE installation_history SET token_hint = 'x', environment = NULL")
            await #expect(throws: (any Error).self) { _ = try await read(500) }
        }
    }

    /// An app whose queue refuses is asked with one event at a time.
    @Test("One event of an app is found without those of others behind it") func quietApp() async throws {
        try await RunningService.run(.init(without: { $0 is EventFeed })) { running in
            let shop = try await running.client.makeApp()
            let app = try await running.app()
            try await shop.register(installation(1), user: "ada", token: token(1))
            try await running.execute(
                """
                INSERT INTO installation_history (app_id, installation, at, event, owner_epoch)
                SELECT \(app.id) + 1000, gen_random_uuid(), now(), 'registered', 1 FROM generate_series(1, 3000)
                """)
            try await running.pool.session { session in
                let before = try session.rowsRead(of: "installation_history")
                let entries = try EventStore(session: session).entries(of: .installations, after: 0, upTo: .max, apps: [app.id], limit: 1)
                #expect(entries.count == 1)
                #expect(try session.rowsRead(of: "installation_history") - before < 100)
            }
        }
    }

    @Test("An event whose message meets a fault of the program is left out once others are stored; while none can be, all wait")
    func unstorable() async throws {
        let lines = LogLines()
        let options = RunningService.Options(
            settings: ["WEBHOOK_INSECURE": "true"], without: { $0 is WebhookDispatcher }, logger: lines.logger)
        try await RunningService.run(options) { running in
            let world = try await WebhookWorld(running, url: "http://127.0.0.1:9/", events: ["*"])
            for statement: PostgresQuery in [
                "CREATE TABLE refused (topic text)", "INSERT INTO refused VALUES ('%')",
                """
                CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                    IF EXISTS (SELECT FROM refused WHERE NEW.topic LIKE topic) THEN RAISE 'not in this test'
                        USING ERRCODE = 'XX001'; END IF;
                    RETURN NEW;
                END $$
                """,
                "CREATE TRIGGER refused BEFORE INSERT ON webhook_messages FOR EACH ROW EXECUTE FUNCTION refuse()",
            ] { try await running.execute(statement) }
            try await world.shop.register(installation(1), user: "ada", token: token(1))
            _ = try await world.shop.send(#"{"user":"nobody"}"#)
            _ = try await eventually { lines.all.contains { $0.hasPrefix("Events could not be published") } ? true : nil }
            #expect(try await running.count("SELECT count(*) FROM webhook_messages") == 0)
            #expect(!lines.all.contains { $0.hasPrefix("An event is left out") })

            try await running.execute("UPDATE refused SET topic = 'notification.no_targets'")
            let ada = try #require(try await world.shop.send(#"{"user":"ada"}"#).json.text("id").flatMap { PushID($0) })
            _ = try await eventually {
                try await running.count(
                    """
                    SELECT count(*) FROM event_feeds WHERE log = 'notifications' AND sink = 'webhooks'
                        AND position >= (SELECT max(id) FROM notification_events WHERE notification = \(ada))
                    """) == 1 ? true : nil
            }
            #expect(lines.all.contains { $0.hasPrefix("An event is left out") })
            #expect(try await running.count("SELECT count(*) FROM webhook_messages WHERE topic = 'notification.no_targets'") == 0)
            #expect(
                try await running.count(
                    "SELECT count(*) FROM webhook_messages WHERE position(\(ada.description) in convert_from(body, 'UTF8')) > 0") >= 1)
        }
    }
}
