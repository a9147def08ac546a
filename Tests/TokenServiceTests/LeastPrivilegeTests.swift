import FoundationEssentials
import Observability
import Postgres
import PushModel
import StrictJSON
import TestDatabase
import Testing
import TokenService
import TokenServiceUpkeep

/// The grants that the runbook names are run as they stand there, with names of the test's own.
@Suite("The service works with the least rights that the runbook grants at the database", .serialized, .timeLimit(.minutes(5)))
struct LeastPrivilegeTests {
    private struct Accounts {
        let owner: String
        let service: String
        /// One for each statement of the runbook.
        let statements: [String]

        init() throws {
            let unique = PushID.random().description.prefix(8)
            let names = (owner: "owner_\(unique)", service: "service_\(unique)")
            (owner, service) = names
            let runbook = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
                .appending(path: "docs/guides/install.md")
            let text = String(decoding: try Data(contentsOf: runbook), as: UTF8.self)
            let block = try #require(text.components(separatedBy: "```sql\n").dropFirst().first?.components(separatedBy: "```").first)
            statements = block.split(separator: "\n").map {
                String($0).replacing("push_owner", with: names.owner).replacing("push_service", with: names.service)
            }
        }
    }

    @Test("The service serves everything with an account that cannot change the schema") func restrictedAccount() async throws {
        let accounts = try Accounts()
        try await withTestDatabase { administrator, uri in
            let outcome: Result<Void, any Error>
            do {
                try await Self.setUp(accounts, administrator, uri: uri)
                outcome = .success(try await Self.serve(accounts, administrator, uri: uri))
            } catch {
                outcome = .failure(error)
            }
            for account in [accounts.service, accounts.owner] {
                try await Self.execute(administrator, "DROP OWNED BY \(account) CASCADE; DROP ROLE \(account)")
            }
            try outcome.get()
        }
    }

    private static func setUp(_ accounts: Accounts, _ administrator: PostgresPool, uri: String) async throws {
        #expect(accounts.statements.count >= 5)
        for statement in accounts.statements { try await execute(administrator, statement) }
        let owner = PostgresPool(try configuration(uri, accounts.owner))
        #expect(try await Schema.migrator().migrate(owner).isEmpty == false)
        await owner.close()
    }

    private static func serve(_ accounts: Accounts, _ administrator: PostgresPool, uri: String) async throws {
        try await RunningService.run(on: administrator, uri: uri, RunningService.Options(postgresUser: accounts.service)) { running in
            let shop = try await running.client.makeApp()
            try await use(running, shop)
            try await changePartitions(running)
            try await Self.tryWhatIsNotGranted(accounts, uri: uri)
            #expect(try await running.client.get("/readyz").status == 200)
            // What a busy machine answers, 503, is tried again and says nothing of rights.
            #expect(!running.metrics.render().contains(#"status="500""#))
        }
    }

    /// One of each kind of statement: registry, jobs, outcomes, lists, holds, webhooks, erasure, housekeeping's own.
    private static func use(_ running: RunningService, _ shop: APITestClient) async throws {
        let admin = try await running.client.makeKey(app: "shop", scopes: ["admin"])
        try await shop.register(installation(1), user: "ada", token: token(1))
        try await shop.register(installation(2), user: "grace", token: token(2))
        let app = "/v1/apps/shop"
        let id = try #require(try await shop.send(#"{"user":"ada"}"#).json.text("id"))
        #expect(try await shop.send(#"{"all":true}"#).status == 202)
        for path in [
            "/installations", "/installations/\(installation(1))/history", "/notifications?user=ada", "/notifications/\(id)/deliveries",
            "/notifications/\(id)/why?user=ada",
        ] { #expect(try await shop.get(app + path).status == 200, "\(path)") }
        #expect(try await shop.export().status == 200)
        #expect(try await shop.put(app + "/users/ada/quiet-hours", #"{"begins_at":"22:00","ends_at":"07:00"}"#).status < 300)
        #expect(try await shop.put(app + "/channels/game-1", #"{"environment":"sandbox","storage":"none"}"#).status == 202)
        #expect(try await shop.get(app + "/channels/game-1").status == 200)
        #expect(try await shop.delete(app + "/channels/game-1").status == 204)
        let hold = try await admin.post(app + "/holds", #"{"lane":"bulk","reason":"test"}"#)
        #expect(try await admin.delete(app + "/holds/\(hold.json.text("id") ?? "")").status == 200)
        let webhook = try await admin.post(app + "/webhooks", #"{"url":"https://hooks.example.com/","events":["delivery.failed"]}"#)
        #expect(try await admin.delete(app + "/webhooks/\(webhook.json.text("id") ?? "")").status == 204)
        #expect(try await shop.post(app + "/installations/\(installation(1))/logout", "{}").status == 200)
        #expect(try await shop.delete(app + "/notifications/\(id)").status == 200)
        #expect(try await admin.post(app + "/users/grace/erase", #"{"confirm":"grace"}"#).status == 200)
        #expect(try await admin.get(app + "/quarantine").status == 200)
        let key = try #require(shop.key).split(separator: "_")[1]
        #expect(try await running.client.post("/v1/admin/keys/\(key)/rotate", "{}").status == 201)
    }

    /// By the functions that may do so.
    private static func changePartitions(_ running: RunningService) async throws {
        for family in ["notifications", "installation_history", "idempotency_records"] {
            for query: PostgresQuery in [
                "SELECT make_partition(\(family), interval '12 days', now() + interval '20 days') AS name",
                "SELECT drop_partition(\(family), interval '1 day', now() + interval '20 days') AS name",
            ] {
                let changed = try await running.service.pool.transaction { session in try session.execute(query).count }
                #expect(changed > 0, "\(family)")
            }
        }
        // As the housekeeping reads them.
        let states = try await running.service.pool.session { session in try PartitionStore(session: session).states { _ in 1 } }
        #expect(states.count == PartitionFamily.allCases.count)
    }

    private static func tryWhatIsNotGranted(_ accounts: Accounts, uri: String) async throws {
        let pool = PostgresPool(try configuration(uri, accounts.service))
        for statement in [
            "CREATE TABLE mine (n int)", "DROP TABLE tokens", "ALTER TABLE tokens ADD COLUMN n int", "TRUNCATE tokens",
            "CREATE ROLE another_\(accounts.service)", "COPY tokens TO PROGRAM 'cat'", "SELECT pg_read_file('/etc/passwd')",
            "ALTER TABLE notifications DISABLE TRIGGER ALL", "DROP TABLE notifications_rest",
            "ALTER TABLE notifications DETACH PARTITION notifications_rest", "SELECT drop_partition('tokens', interval '1 day', now())",
            "SELECT make_partition('tokens', interval '1 day', now())",
        ] {
            let error = await #expect(throws: PostgresError.self, "\(statement)") { try await execute(pool, statement) }
            #expect(error?.sqlState?.code == "42501", "\(statement): \(String(describing: error))")
        }
        await pool.close()
    }

    private static func configuration(_ uri: String, _ user: String) throws -> PostgresConfiguration {
        try TestServer.configuration(uri: RunningService.replaceUser(of: uri, with: user))
    }

    private static func execute(_ pool: PostgresPool, _ sql: String) async throws {
        try await pool.session { session in try session.simple(sql) }
    }
}
