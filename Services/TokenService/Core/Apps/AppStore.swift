package import Postgres
package import PushModel

/// The `apps` table, remembered for a few seconds: apps hardly ever change, and every request names one.
package final class AppStore: Sendable {
    /// How long a change made through another instance may stay unnoticed here.
    package static let memory: Duration = .seconds(5)

    private let pool: PostgresPool
    private let known: LookupCache<AppSlug, App>

    package init(pool: PostgresPool) {
        self.pool = pool
        known = LookupCache(memory: Self.memory) { slug in try await Self.read(slug, pool) }
    }

    /// - Returns: nil where there is no such app.
    package func app(_ slug: AppSlug) async throws -> App? { try await known.value(slug) }

    /// The same past the memory.
    package func read(_ slug: AppSlug) async throws -> App? { try await Self.read(slug, pool) }

    private static func read(_ slug: AppSlug, _ pool: PostgresPool) async throws -> App? {
        try await pool.session { session in
            try session.execute(Self.select, [.text(slug.text)]).first.map { row in try Self.app(row) }
        }
    }

    package func all() async throws -> [App] {
        try await pool.session { session in try session.execute(Self.selectAll).map { row in try Self.app(row) } }
    }

    package enum Creation: Equatable, Sendable {
        case created(App)
        /// The very same app was there already.
        case existed(App)
        /// An app of that slug is there with other properties.
        case differs
    }

    /// What the dispatchers said last of the app's credentials.
    package func credentials(of app: AppSlug) async throws -> [AppCredential] {
        try await pool.session { session in try CredentialStore(session: session).credentials(of: app) }
    }

    package func create(slug: AppSlug, _ properties: AppProperties) async throws -> Creation {
        try await pool.transaction { session in
            let made = try session.execute(Self.insert, [.text(slug.text)] + Self.values(properties))
            let app = try Self.app(session.execute(Self.select, [.text(slug.text)]).only())
            if made.affected == 1 { return .created(app) }
            return app.properties.isSame(as: properties) ? .existed(app) : .differs
        }
    }

    package enum Change: Equatable, Sendable {
        case changed(App)
        /// Nothing was changed: active tokens live in an environment that was to go.
        case environmentInUse(APNsEnvironment)
    }

    /// Changes an app, for this process at once and for others within ``memory``: until then they, and requests that are under way,
    /// may still register a token for an environment that is gone.
    /// - Returns: nil where there is no such app.
    package func change(_ slug: AppSlug, _ change: AppChange) async throws -> Change? {
        defer { known.forget(slug) }
        return try await pool.transaction { session -> Change? in
            guard let row = try session.execute(Self.selectForUpdate, [.text(slug.text)]).first else { return nil }
            let app = try Self.app(row)
            var properties = app.properties
            change.apply(to: &properties)
            for environment in app.environments where !properties.environments.contains(environment) {
                if try session.execute(Self.isInUse(environment), [.int64(app.id)]).only().bool(0) {
                    return .environmentInUse(environment)
                }
            }
            _ = try session.execute(Self.update, [.text(slug.text)] + Self.values(properties))
            try WebhookStore(session: session).noteInterest(of: app.id)
            return .changed(try Self.app(session.execute(Self.select, [.text(slug.text)]).only()))
        }
    }
}

extension AppStore {
    private static func values(_ properties: AppProperties) -> [PostgresValue] {
        [
            .text(properties.bundleID), .text(properties.devicePolicy.rawValue), .textArray(properties.environments.map(\.rawValue)),
            .optionalInt32(properties.staleAfterDays.map { Int32($0) }), .bool(properties.removesStale),
            .textArray(properties.eventStream.map(\.rawValue)),
        ]
    }

    private static func app(_ row: PostgresRow) throws -> App {
        guard let slug = AppSlug(try row.text(1)), let policy = DevicePolicy(rawValue: try row.text(3)) else {
            throw CorruptRow(table: "apps")
        }
        return App(
            id: try row.int64(0), slug: slug, bundleID: try row.text(2), devicePolicy: policy,
            environments: try row.textArray(4).compactMap(APNsEnvironment.init(rawValue:)),
            staleAfterDays: try row.optionalInt32(5).map { Int($0) }, removesStale: try row.bool(6),
            eventStream: try row.textArray(7).compactMap(EventLog.init(rawValue:)))
    }

    private static func isInUse(_ environment: APNsEnvironment) -> PostgresStatement {
        switch environment {
        case .production: productionIsInUse
        case .sandbox: sandboxIsInUse
        }
    }

    private static let select: PostgresStatement = """
        SELECT id, slug, bundle_id, device_policy, environments, stale_after_days, removes_stale, event_stream FROM apps WHERE slug = $1
        """
    /// One change at a time.
    private static let selectForUpdate: PostgresStatement = """
        SELECT id, slug, bundle_id, device_policy, environments, stale_after_days, removes_stale, event_stream FROM apps WHERE slug = $1
        FOR NO KEY UPDATE
        """
    private static let selectAll: PostgresStatement = """
        SELECT id, slug, bundle_id, device_policy, environments, stale_after_days, removes_stale, event_stream FROM apps ORDER BY slug
        """
    private static let insert: PostgresStatement = """
        INSERT INTO apps (slug, bundle_id, device_policy, environments, stale_after_days, removes_stale, event_stream, reports_notifications)
        VALUES ($1, $2, $3, $4, $5, $6, $7, 'notifications' = ANY ($7)) ON CONFLICT (slug) DO NOTHING
        """
    private static let update: PostgresStatement = """
        UPDATE apps SET bundle_id = $2, device_policy = $3, environments = $4, stale_after_days = $5, removes_stale = $6,
            event_stream = $7, updated_at = now()
        WHERE slug = $1
        """
    private static let productionIsInUse: PostgresStatement =
        "SELECT EXISTS (SELECT FROM tokens WHERE app_id = $1 AND state = 'active' AND environment = 'production')"
    private static let sandboxIsInUse: PostgresStatement =
        "SELECT EXISTS (SELECT FROM tokens WHERE app_id = $1 AND state = 'active' AND environment = 'sandbox')"
}

/// A row holds what its table's constraints forbid: another program's work.
package struct CorruptRow: Error, CustomStringConvertible {
    package let table: String
    package var description: String { "a row of \(table) holds what its constraints forbid" }
}
