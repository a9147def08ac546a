import Postgres
import PushModel
import TestDatabase
import Testing

@testable import TokenService

@Suite("Changes that share a commit are as if they had come one after another", .timeLimit(.minutes(1)))
struct RegistryBatchTests {
    @Test func anInstallationMayChangeHandsTwiceInOneBatch() async throws {
        try await withRegistry { registry in
            let results = try await registry.apply([.put(1, "ada", token: 1), .put(1, "grace", token: 1), .put(1, nil, token: 1)])
            #expect(try results.map { try $0.get().record.ownerEpoch } == [1, 2, 3])
            #expect(try results.map { try $0.get().isNew } == [true, false, false])
            #expect(try await registry.installations() == ["1 nobody 3"])
            #expect(try await registry.fences() == ["1 3"])
            #expect(try await registry.tokens() == ["1 at 1 active"])
        }
    }

    @Test func twoInstallationsMaySwapTheirTokens() async throws {
        try await withRegistry { registry in
            _ = try await registry.apply([.put(1, "ada", token: 1), .put(2, "grace", token: 2)])
            _ = try await registry.apply([.put(1, "ada", token: 2), .put(2, "grace", token: 1)])
            #expect(try await registry.tokens() == ["1 at 2 active", "2 at 1 active"])
            // 2 lost its token to 1 and was fenced; 1 had lost hers to nobody then, but loses the old one to 2 now.
            #expect(try await registry.installations() == ["1 ada 2", "2 grace 2"])
        }
    }

    @Test func aTokenMayComeAndGoInOneBatch() async throws {
        try await withRegistry { registry in
            let results = try await registry.apply([.put(1, "ada", token: 1), .put(1, "ada", token: 2), .put(1, "ada", token: 3)])
            #expect(try results.map { try $0.get().record.tokens.count } == [1, 2, 3])
            #expect(try await registry.tokens() == ["1 at 1 replaced", "2 at 1 replaced", "3 at 1 active"])
        }
    }

    @Test func aFenceReachesBackOverMovesOfTheSameBatch() async throws {
        try await withRegistry { registry in
            _ = try await registry.apply([.put(1, "ada", token: 1), .put(2, "ada", token: 1), .put(2, "grace", token: 1)])
            #expect(try await registry.installations() == ["1 ada 2", "2 grace 2"])
            #expect(try await registry.fences() == ["1 2", "2 2"])
        }
    }

    @Test func underTheSinglePolicyTheLastOneStays() async throws {
        try await withRegistry(policy: .single) { registry in
            _ = try await registry.apply([.put(1, "ada", token: 1), .put(2, "ada", token: 2), .put(3, "ada", token: 3)])
            #expect(try await registry.installations() == ["1 nobody 2", "2 nobody 2", "3 ada 1"])
        }
    }

    @Test func aChangeThatIsRefusedLeavesTheOthersAlone() async throws {
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

    @Test func aProvenEnvironmentIsNotUndoneByAClientThatStatesAnother() async throws {
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

    @Test func aRegistrationIsAlwaysLaterThanTheOneBefore() async throws {
        try await withRegistry { registry in
            let results = try await registry.apply([.put(1, "ada", token: 1), .put(1, "ada", token: 1), .put(1, "ada", token: 1)])
            let moments = try results.map { try $0.get().record.tokens[0].registeredAt }
            #expect(moments == moments.sorted() && Set(moments).count == 3)
        }
    }
}

/// The registry's tables, without a service around them.
private struct Registry: Sendable {
    let pool: PostgresPool
    let app: App

    func apply(_ contents: [RegistryChange.Content]) async throws -> [Result<RegistryChange.Result, any Error>] {
        let changes = contents.map { RegistryChange(app: app, $0) }
        return try await pool.transaction { session in
            let store = RegistryBatchStore(session: session)
            var batch = try store.load(changes).batch
            let results = changes.map { change in Result { try batch.apply(change) } }
            _ = try store.save(batch, slugs: [app.id: app.slug])
            return results
        }
    }

    func installations() async throws -> [String] {
        try await texts(
            "SELECT right(id::text, 1) || ' ' || coalesce(owner, 'nobody') || ' ' || owner_epoch FROM installations ORDER BY id")
    }

    func tokens() async throws -> [String] {
        try await texts(
            """
            SELECT get_byte(token, 31) || ' at ' || right(installation::text, 1) || ' ' || coalesce(retired_reason, state)
            FROM tokens ORDER BY token
            """)
    }

    /// The newest of each installation.
    func fences() async throws -> [String] {
        try await texts(
            "SELECT right(installation::text, 1) || ' ' || max(epochs_below) FROM fences GROUP BY installation ORDER BY installation")
    }

    private func texts(_ statement: PostgresStatement) async throws -> [String] {
        try await pool.session { session in try session.execute(statement).map { row in try row.text(0) } }
    }
}

private func withRegistry(policy: DevicePolicy = .multi, _ body: @Sendable (Registry) async throws -> Void) async throws {
    try await withTestDatabase(migrations: RunningService.migrationsDirectory()) { pool, _ in
        let slug = try #require(AppSlug("shop"))
        let creation = try await AppStore(pool: pool).create(
            slug: slug,
            AppProperties(bundleID: "com.example.shop", devicePolicy: policy, environments: [.production, .sandbox]))
        guard case .created(let app) = creation else { throw CorruptRow(table: "apps") }
        try await body(Registry(pool: pool, app: app))
    }
}

extension RegistryChange.Content {
    fileprivate static func put(_ id: Int, _ user: String?, token number: Int, expecting owner: ExpectedOwner = .anyone) -> Self {
        let tokens = DeviceToken(hex: token(number)).map { [RegisteredToken(token: $0, environment: .production, purpose: .alert)] } ?? []
        return .registration(
            Registration(
                installation: installation(id), user: user, tokens: tokens, profile: InstallationProfile(), replaces: nil,
                expectedOwner: owner))
    }
}
