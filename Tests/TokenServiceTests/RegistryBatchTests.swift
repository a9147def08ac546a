import Dispatch
import Postgres
import PushModel
import StrictJSON
import TestDatabase
import TestSupport
import Testing

@testable import TokenService
@testable import TokenServiceApps
@testable import TokenServiceRegistry

@Suite("Changes that share a commit are as if they had come one after another", .timeLimit(.minutes(5)))
struct RegistryBatchTests {
    @Test("An installation may change hands twice in one batch") func changedHands() async throws {
        try await withRegistry { registry in
            let results = try await registry.apply([.put(1, "ada", token: 1), .put(1, "grace", token: 1), .put(1, nil, token: 1)])
            #expect(try results.map { try $0.get().record.ownerEpoch } == [1, 2, 3])
            #expect(try results.map { try $0.get().isNew } == [true, false, false])
            #expect(try await registry.installations() == ["1 nobody 3"])
            #expect(try await registry.fences() == ["1 3"])
            #expect(try await registry.tokens() == ["1 at 1 active"])
        }
    }

    @Test("Two installations may swap their tokens") func swappedTokens() async throws {
        try await withRegistry { registry in
            _ = try await registry.apply([.put(1, "ada", token: 1), .put(2, "grace", token: 2)])
            _ = try await registry.apply([.put(1, "ada", token: 2), .put(2, "grace", token: 1)])
            #expect(try await registry.tokens() == ["1 at 2 active", "2 at 1 active"])
            // 2 lost its token to 1 and was fenced; 1 had lost no token then, but loses the old one to 2 now.
            #expect(try await registry.installations() == ["1 ada 2", "2 grace 2"])
        }
    }

    @Test("A token may come and go in one batch") func briefToken() async throws {
        try await withRegistry { registry in
            let results = try await registry.apply([.put(1, "ada", token: 1), .put(1, "ada", token: 2), .put(1, "ada", token: 3)])
            #expect(try results.map { try $0.get().record.tokens.count } == [1, 2, 3])
            #expect(try await registry.tokens() == ["1 at 1 replaced", "2 at 1 replaced", "3 at 1 active"])
        }
    }

    @Test("A fence reaches back over moves of the same batch") func movesOfBatch() async throws {
        try await withRegistry { registry in
            _ = try await registry.apply([.put(1, "ada", token: 1), .put(2, "ada", token: 1), .put(2, "grace", token: 1)])
            #expect(try await registry.installations() == ["1 ada 2", "2 grace 2"])
            #expect(try await registry.fences() == ["1 2", "2 2"])
        }
    }

    /// At first the registry reads only moves that lead directly to an installation that may lose a token.
    @Test("A fence reaches back over earlier moves") func earlierMoves() async throws {
        try await withRegistry { registry in
            for number in 1...3 { _ = try await registry.apply([.put(number, "ada", token: 1)]) }
            _ = try await registry.apply([.put(4, "grace", token: 1)])
            #expect(try await registry.installations() == ["1 ada 2", "2 ada 2", "3 ada 2", "4 grace 1"])
            #expect(try await registry.fences() == ["1 2", "2 2", "3 2"])
        }
        try await withRegistry { registry in
            for number in 1...2 { _ = try await registry.apply([.put(number, "ada", token: 1)]) }
            _ = try await registry.apply([.put(2, "grace", token: 1)])
            #expect(try await registry.installations() == ["1 ada 2", "2 grace 2"])
        }
    }

    @Test("Under the single policy the last installation keeps its user") func singlePolicy() async throws {
        try await withRegistry(policy: .single) { registry in
            _ = try await registry.apply([.put(1, "ada", token: 1), .put(2, "ada", token: 2), .put(3, "ada", token: 3)])
            #expect(try await registry.installations() == ["1 nobody 2", "2 nobody 2", "3 ada 1"])
        }
    }

    @Test("A refused change leaves the others alone") func refusedChange() async throws {
        try await withRegistry { registry in
            _ = try await registry.apply([.put(1, "ada", token: 1)])
            let results = try await registry.apply([
                .put(1, "eve", token: 1, expecting: .exactly("grace")), .put(2, "grace", token: 2),
                .patch(InstallationPatch(installation: installation(9), expectedOwner: .anyone, precondition: .none)),
            ])
            #expect(throws: OwnerMismatch.self) { try results[0].get() }
            #expect(try results[1].get().isNew)
            #expect(throws: NotRegistered.self) { try results[2].get() }
            #expect(try await registry.installations() == ["1 ada 1", "2 grace 1"])
        }
    }

    @Test("A client that states another environment does not undo a proven one") func provenEnvironment() async throws {
        try await withRegistry { registry in
            _ = try await registry.apply([.put(1, "ada", token: 1)])
            try await registry.pool.session { session in
                _ = try session.execute("UPDATE tokens SET environment = 'sandbox', proven_at = now()")
            }
            let again = try await registry.apply([.put(1, "ada", token: 1)])
            #expect(try again[0].get().record.tokens.map(\.environment) == ["sandbox"])
            #expect(try await registry.tokens() == ["1 at 1 active"])
        }
    }

    @Test("A token belongs to one device, whatever environment another device stated for it") func oneDevice() async throws {
        try await withRegistry { registry in
            _ = try await registry.apply([.put(1, "ada", token: 1, in: .sandbox)])
            _ = try await registry.apply([.put(2, "grace", token: 1)])
            // What was queued for ada in the sandbox must not be tried in production: there it is grace's device.
            #expect(try await registry.tokens() == ["1 at 2 replaced", "1 at 2 active"])
            #expect(try await registry.installations() == ["1 ada 2", "2 grace 1"])
            // And the next refresh fences no installation again.
            _ = try await registry.apply([.put(2, "grace", token: 1)])
            #expect(try await registry.installations() == ["1 ada 2", "2 grace 1"])
        }
    }

    @Test("A fence does not reach back to an installation whose epoch has ended since") func endedEpoch() async throws {
        try await withRegistry { registry in
            _ = try await registry.apply([.put(1, "ada", token: 1), .put(2, "ada", token: 1), .put(1, "grace", token: 2)])
            #expect(try await registry.installations() == ["1 grace 2", "2 ada 1"])
            // Nothing of ada's waits for 1 any more; what waits there is grace's.
            _ = try await registry.apply([.put(2, nil, token: 1)])
            #expect(try await registry.installations() == ["1 grace 2", "2 nobody 2"])
        }
    }

    @Test("The registry distinguishes users by their bytes") func usersByBytes() async throws {
        try await withRegistry { registry in
            let results = try await registry.apply([.put(1, "ren\u{e9}", token: 1), .put(1, "rene\u{301}", token: 1)])
            #expect(try results.map { try $0.get().record.ownerEpoch } == [1, 2])
            let refused = try await registry.apply([.put(1, "eve", token: 1, expecting: .exactly("ren\u{e9}"))])
            #expect(throws: OwnerMismatch.self) { try refused[0].get() }
        }
    }

    @Test(
        "A tag stays what it was",
        arguments: [#"a"b"#, #"back\slash"#, "quote\"\u{301}", "a\u{600}\",NULL,c\u{600}\\", "{}", ",", "NULL", " "]
    )
    func unchangedTag(tag: String) async throws {
        try await withRegistry { registry in
            var profile = InstallationProfile()
            profile.appTags = [tag, "plain"]
            _ = try await registry.apply([.put(1, "ada", token: 1, profile: profile)])
            let again = try await registry.apply([.put(1, "ada", token: 1, profile: profile)])
            #expect(try again[0].get().record.profile == profile)
            let stored: [String] = try await registry.pool.session { session in
                try session.execute("SELECT tags FROM installations").only()["tags"]
            }
            #expect(stored.map { Array($0.utf8) } == profile.appTags.map { Array("app:\($0)".utf8) })
        }
    }

    @Test("A change that has to wait does not fail the others") func lockedRow() async throws {
        try await withRegistry { registry in
            _ = try await registry.apply([.put(1, "ada", token: 1)])
            var impatient = try TestServer.configuration(uri: registry.uri)
            impatient.lockTimeout = .milliseconds(100)
            let pool = PostgresPool(impatient)
            let transactions = InstallationRegistration.Transactions(pool: pool)
            let requests = [1, 2, 3].map { Content.put($0, "grace", token: $0).request(registry.app) }
            // Another transaction holds the first one's row for longer than a change waits.
            let (locked, letGo) = (Signal<Void>(), DispatchSemaphore(value: 0))
            async let holder: Void = registry.pool.transaction { session in
                _ = try session.execute("SELECT id FROM installations FOR UPDATE")
                locked.send(())
                letGo.wait()
            }
            try await locked.next()
            let results = await transactions.commit(requests)
            letGo.signal()
            try await holder
            #expect(throws: PostgresError.self) { try results[0].get() }
            #expect(try results[1...].map { try $0.get().result.isNew } == [true, true])
            await pool.close()
        }
    }

    @Test("A registration is always later than the one before") func laterRegistration() async throws {
        try await withRegistry { registry in
            let results = try await registry.apply([.put(1, "ada", token: 1), .put(1, "ada", token: 1), .put(1, "ada", token: 1)])
            let moments = try results.map { try $0.get().record.tokens[0].registeredAt }
            #expect(moments == moments.sorted() && Set(moments).count == 3)
        }
    }

    /// A new database, or a restored one: PostgreSQL knows of no table how its values are spread.
    @Test("A change reads no moves of others, even if the tables were never analyzed") func movesOfOthers() async throws {
        try await withRegistry { registry in
            let read = try await registry.pool.session { session in
                // 2,000 installations whose tokens moved on to the next one each.
                try session.execute(
                    """
                    WITH made AS (
                        INSERT INTO installations (app_id, id, owner, registered_at, created_at)
                        SELECT \(registry.app.id), ('11111111-0000-4000-8000-' || lpad(to_hex(n), 12, '0'))::uuid, 'ada', now(), now()
                        FROM generate_series(1, 2000) AS n RETURNING id
                    )
                    INSERT INTO token_moves (app_id, predecessor, successor, moved_at)
                    SELECT \(registry.app.id), id, lead(id) OVER (ORDER BY id), now() FROM made ORDER BY id LIMIT 1999
                    """)
                let before = try session.entriesRead(of: "token_moves")
                // Often enough for a plan that is kept. Each one takes its token from the one before.
                for number in 1...20 { _ = try registry.apply([.put(number, "u\(number)", token: 1)], in: session) }
                return try session.entriesRead(of: "token_moves") - before
            }
            #expect(read < 20, "nothing ever moved to any of these installations")
        }
    }

    @Test("A change reads a bounded part of a long chain of moves, and a fence all of it") func longChain() async throws {
        try await withRegistry { registry in
            let (read, fences) = try await registry.pool.session { session in
                // The token went from each of 2,000 installations to the next one.
                try session.execute(
                    """
                    WITH made AS (
                        INSERT INTO installations (app_id, id, owner, registered_at, created_at)
                        SELECT \(registry.app.id), ('00000000-0000-4000-8000-' || lpad(to_hex(n), 12, '0'))::uuid, 'ada', now(), now()
                        FROM generate_series(1, 2000) AS n RETURNING id
                    )
                    INSERT INTO token_moves (app_id, predecessor, successor, moved_at)
                    SELECT \(registry.app.id), id, lead(id) OVER (ORDER BY id), now() FROM made ORDER BY id LIMIT 1999
                    """)
                let before = try session.entriesRead(of: "token_moves")
                _ = try registry.apply([.put(2000, "ada", token: 1)], in: session)
                let read = try session.entriesRead(of: "token_moves") - before
                _ = try registry.apply([.put(2000, "grace", token: 1)], in: session)
                let fences: Int64 = try session.execute("SELECT count(*) AS fences FROM fences").only()["fences"]
                return (read, fences)
            }
            #expect((1...300).contains(read))
            #expect(fences == 2000)
        }
    }

    @Test("A change whose fences reach back along a long chain of moves goes alone: the others of its batch are committed without it")
    func longChainAlone() async throws {
        try await withRegistry { registry in
            _ = try await registry.apply([.put(1200, "ada", token: 1)])
            try await registry.pool.session { session in
                try session.execute(
                    """
                    INSERT INTO installations (app_id, id, owner, registered_at, created_at)
                    SELECT \(registry.app.id), ('00000000-0000-4000-8000-' || lpad(to_hex(n), 12, '0'))::uuid, 'ada', now(), now()
                    FROM generate_series(1, 1099) AS n
                    """)
                try session.execute(
                    """
                    INSERT INTO token_moves (app_id, predecessor, successor, moved_at)
                    SELECT app_id, id, lead(id) OVER (ORDER BY id), now() FROM installations ORDER BY id LIMIT 1099
                    """)
            }
            let transactions = InstallationRegistration.Transactions(pool: registry.pool)
            let contents: [Content] = [.put(2001, "bob", token: 2), .put(1200, "grace", token: 1), .put(2002, "eve", token: 3)]
            let requests = contents.map { $0.request(registry.app) }
            let results = await transactions.commit(requests)
            #expect(try [0, 2].map { try results[$0].get().result.isNew } == [true, true])
            #expect(throws: LongChain.self) { try results[1].get() }
            let fences: PostgresQuery = "SELECT count(*) AS fences FROM fences"
            let before: Int64 = try await registry.pool.session { session in try session.execute(fences).only()["fences"] }
            #expect(before == 0)
            _ = try await transactions.commit([requests[1]], isAlone: { $0.count == 1 })[0].get()
            let after: Int64 = try await registry.pool.session { session in try session.execute(fences).only()["fences"] }
            #expect(after == 1100)
        }
    }

    /// A service whose installation 1200, of ada, is at the end of 1,099 moves of its token.
    private static func withLongChain(_ body: @Sendable (RunningService, APITestClient) async throws -> Void) async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            try await shop.register(installation(1200), user: "ada", token: token(1))
            let app = try await running.app()
            try await running.execute(
                """
                INSERT INTO installations (app_id, id, owner, registered_at, created_at)
                SELECT \(app.id), ('00000000-0000-4000-8000-' || lpad(to_hex(n), 12, '0'))::uuid, 'ada', now(), now()
                FROM generate_series(1, 1099) AS n
                """)
            try await running.execute(
                """
                INSERT INTO token_moves (app_id, predecessor, successor, moved_at)
                SELECT app_id, id, lead(id) OVER (ORDER BY id), now() FROM installations ORDER BY id LIMIT 1099
                """)
            try await body(running, shop)
        }
    }

    @Test("A request with a long chain of moves is answered") func longChainOfRequest() async throws {
        try await Self.withLongChain { running, shop in
            let tokens = #"[{"token":"\#(token(1))"}]"#
            let answer = try await shop.put("/v1/apps/shop/installations/\(installation(1200))", #"{"user":"grace","tokens":\#(tokens)}"#)
            #expect(answer.status == 200 && answer.json.text("user") == "grace")
            #expect(try await running.count("SELECT count(*) FROM fences") == 1100)
        }
    }

    @Test("Of two items of a list for one installation the later one wins, also if the first one has a long chain of moves")
    func longChainInList() async throws {
        try await Self.withLongChain { running, shop in
            let items = ["grace", "ada"].map { importLine(1200, user: $0, token: 1) }.joined(separator: ",")
            let answer = try await shop.post("/v1/apps/shop/installations", #"{"installations":[\#(items)]}"#)
            #expect(answer.json["results"]?.arrayValue?.compactMap { $0["record"]?.text("user") } == ["grace", "ada"])
            #expect(try await shop.get("/v1/apps/shop/installations/\(installation(1200))").json.text("user") == "ada")
            #expect(try await running.count("SELECT count(*) FROM fences") == 1101)
        }
    }

    /// The broker is away: fences stay open that were never open for long when the table was analyzed.
    @Test("A change reads no open fences of others") func fencesOfOthers() async throws {
        try await withRegistry { registry in
            let read = try await registry.pool.session { session in
                func makeFences(_ count: Int32, isPublished: Bool) throws {
                    try session.transaction { session in
                        // Of installations that are left out.
                        try session.execute("SET LOCAL session_replication_role = replica")
                        try session.execute(
                            """
                            INSERT INTO fences (app_id, installation, epochs_below, created_at, free_from, published_at)
                            SELECT \(registry.app.id), gen_random_uuid(), 2, now(), now(), CASE WHEN \(isPublished) THEN now() END
                            FROM generate_series(1, \(count)::int)
                            """)
                    }
                }
                try makeFences(20_000, isPublished: true)
                try session.execute("ANALYZE fences")
                try makeFences(2000, isPublished: false)
                let before = try session.entriesRead(of: "fences")
                // Each of them signs another user in, where one was before.
                for number in 1...20 { _ = try registry.apply([.put(1, "u\(number)", token: 1)], in: session) }
                let made: [Int64] = try session.execute("SELECT id FROM fences ORDER BY id DESC LIMIT 19").column("id")
                let read = try session.entriesRead(of: "fences") - before
                try FenceStore(session: session).markPublished(made)
                return [read, try session.entriesRead(of: "fences") - before - read]
            }
            #expect(read.allSatisfy { $0 < 1000 }, "\(read)")
        }
    }
}

/// The registry's tables, without a service around them.
private struct Registry: Sendable {
    let pool: PostgresPool
    let uri: String
    let app: App

    typealias Committed = InstallationRegistration.Result

    func apply(_ contents: [Content]) async throws -> [Result<Committed, any Error>] {
        try await pool.session { session in try apply(contents, in: session) }
    }

    func apply(_ contents: [Content], in session: PostgresSession) throws -> [Result<Committed, any Error>] {
        let requests = contents.map { $0.request(app) }
        return try session.transaction { session in try RegistryStore(session: session).commit(requests).map { $0.map(\.result) } }
    }

    func installations() async throws -> [String] {
        try await texts(
            "SELECT right(id::text, 1) || ' ' || coalesce(owner, 'nobody') || ' ' || owner_epoch AS text FROM installations ORDER BY id")
    }

    func tokens() async throws -> [String] {
        try await texts(
            """
            SELECT get_byte(token, 31) || ' at ' || right(installation::text, 1) || ' ' || coalesce(retired_reason, state) AS text
            FROM tokens ORDER BY token, environment DESC
            """)
    }

    /// The newest of each installation.
    func fences() async throws -> [String] {
        try await texts(
            """
            SELECT right(installation::text, 1) || ' ' || max(epochs_below) AS text FROM fences GROUP BY installation ORDER BY installation
            """
        )
    }

    private func texts(_ query: PostgresQuery) async throws -> [String] {
        try await pool.session { session in try session.execute(query).column("text") }
    }
}

private func withRegistry(policy: DevicePolicy = .multi, _ body: @Sendable (Registry) async throws -> Void) async throws {
    try await withTestDatabase(migrations: RunningService.migrationsDirectory()) { administrator, uri in
        let slug = try #require(AppSlug("shop"))
        let creation = try await AppStore(pool: administrator).create(
            slug: slug,
            AppProperties(bundleID: "com.example.shop", devicePolicy: policy, environments: [.production, .sandbox]),
            by: .service)
        guard case .created(let app) = creation else { throw CorruptRow(table: "apps") }
        // Planned as the service has its statements planned.
        var configuration = try TestServer.configuration(uri: uri)
        configuration.sessionSettings = TokenServiceConfiguration.planning
        let pool = PostgresPool(configuration)
        let result: Result<Void, any Error>
        do { result = .success(try await body(Registry(pool: pool, uri: uri, app: app))) } catch { result = .failure(error) }
        await pool.close()
        try result.get()
    }
}

private enum Content {
    case registration(Registration)
    case patch(InstallationPatch)

    func request(_ app: App) -> RegistryRequest {
        switch self {
        case .registration(let registration): RegistryRequest(app: app, registration)
        case .patch(let patch): RegistryRequest(app: app, patch)
        }
    }

    static func put(
        _ id: Int, _ user: String?, token number: Int, in environment: APNsEnvironment = .production,
        expecting owner: ExpectedOwner = .anyone,
        profile: InstallationProfile = InstallationProfile()
    ) -> Self {
        let tokens = DeviceToken(hex: token(number)).map { [RegisteredToken(token: $0, environment: environment, purpose: .alert)] } ?? []
        return .registration(
            Registration(
                installation: installation(id), user: user, tokens: tokens, profile: profile, replaces: nil,
                expectedOwner: owner))
    }
}
