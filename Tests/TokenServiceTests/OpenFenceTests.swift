import Postgres
import PushModel
import TestDatabase
import Testing

@testable import TokenService
@testable import TokenServiceApps
@testable import TokenServiceRegistry
@testable import TokenServiceUpkeep

/// The service keeps the published fences of an installation for a week. A query for those that are open reads no others.
@Suite("A sign-out does not read the fences of those before it", .timeLimit(.minutes(5)))
struct OpenFenceTests {
    /// What PostgreSQL knows of the table when it makes its plan.
    enum Statistics: CaseIterable { case none, whileOpen, whenPublished }

    private static let signOuts: Int32 = 3075

    @Test("A query for open fences does not read an installation's published fences", arguments: Statistics.allCases)
    func publishedFences(_ statistics: Statistics) async throws {
        try await withShop { app, session in
            try Self.signOut(app, in: session, statistics)
            let store = InstallationStore(session: session, app: app)
            let needs = RegistryStore.Needs(app: app.id, installations: [installation(1)])
            let questions: [(String, () throws -> Int)] = [
                ("of a user", { try store.openFences(of: "ada").count }),
                ("of a change", { try RegistryStore(session: session).load([needs], locking: []).openFences.count }),
                ("of a record", { try store.records([installation(1)]).filter { $0.fence == .pending }.count }),
                ("of the erased", { try ErasureStore(session, app: app, user: "ada").openFences().count }),
            ]
            for (question, ask) in questions {
                // Rows, not entries: an index keeps entries of published fences until no transaction can see them.
                _ = try session.transaction { _ in try ask() }
                let before = try session.rowsRead(of: "fences")
                let found = try session.transaction { _ in try ask() }
                let read = try session.rowsRead(of: "fences") - before
                #expect(found == 0 && read < 100, "\(question): \(found) found, \(read) read")
            }
        }
    }

    @Test("The relay finds left-over fences without reading the published ones") func relayedFences() async throws {
        try await withShop { app, session in
            try Self.signOut(app, in: session, .whenPublished)
            try session.execute("UPDATE fences SET published_at = NULL WHERE id IN (SELECT id FROM fences ORDER BY id DESC LIMIT 20)")
            let store = FenceStore(session: session)
            func take() throws -> Int {
                let oldest = try #require(try store.oldestLeftOver().oldest)
                return try session.transaction { _ in try store.claim(limit: 5, from: oldest, leaseSeconds: 60).count }
            }
            _ = try take()
            let before = try session.rowsRead(of: "fences")
            #expect(try take() == 5)
            #expect(try session.rowsRead(of: "fences") - before < 100)
        }
    }

    /// Alternating registration and logout: the tables that thousands of them leave, with one open fence of another installation.
    private static func signOut(_ app: App, in session: PostgresSession, _ statistics: Statistics) throws {
        try session.execute(
            """
            INSERT INTO installations (app_id, id, owner_epoch, registered_at, created_at)
            SELECT \(app.id), unnest(\([installation(1), installation(2)])::uuid[]), 1, now(), now()
            """)
        try session.execute(
            """
            INSERT INTO fences (app_id, installation, epochs_below, created_at, free_from)
            SELECT \(app.id), \(installation(1)), n + 1, now(), now() FROM generate_series(1, \(signOuts)::int) AS n
            """)
        if statistics == .whileOpen { try session.execute("ANALYZE fences") }
        try session.execute("UPDATE fences SET published_at = now()")
        try session.execute(
            """
            INSERT INTO installation_history (app_id, installation, at, event, owner_epoch, owner)
            SELECT \(app.id), \(installation(1)), now(), event, n, 'ada'
            FROM generate_series(1, \(signOuts)::int) AS n, unnest(ARRAY['signed_in', 'signed_out']) AS event
            ORDER BY n, event
            """)
        try session.execute(
            """
            INSERT INTO fences (app_id, installation, epochs_below, created_at, free_from)
            VALUES (\(app.id), \(installation(2)), 2, now(), now())
            """)
        if statistics == .whenPublished { try session.execute("ANALYZE") }
    }

    private func withShop(_ body: @escaping @Sendable (App, PostgresSession) throws -> Void) async throws {
        try await withTestDatabase(migrations: RunningService.migrationsDirectory()) { administrator, uri in
            let slug = try #require(AppSlug("shop"))
            let properties = AppProperties(bundleID: "com.example.shop", devicePolicy: .multi, environments: [.production])
            guard case .created(let app) = try await AppStore(pool: administrator).create(slug: slug, properties, by: .service) else {
                throw CorruptRow(table: "apps")
            }
            // Planned as the service has its statements planned.
            var configuration = try TestServer.configuration(uri: uri)
            configuration.sessionSettings = TokenServiceConfiguration.planning
            let pool = PostgresPool(configuration)
            let result: Result<Void, any Error>
            do { result = .success(try await pool.session { session in try body(app, session) }) } catch { result = .failure(error) }
            await pool.close()
            try result.get()
        }
    }
}
