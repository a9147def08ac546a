package import Postgres
package import PushModel
import TokenServiceKit

/// The `apps` table, remembered for a few seconds: apps hardly ever change, and every request names one.
package final class AppStore: Sendable {
    /// How long a change made through another instance may stay unnoticed here.
    package static let memory: Duration = .seconds(5)

    private let pool: PostgresPool
    private let known: LookupCache<AppSlug, App>

    /// - Parameter lookUps: For ``app(_:)``, which every request calls; by itself `pool`.
    package init(pool: PostgresPool, lookUps: PostgresPool? = nil) {
        self.pool = pool
        known = LookupCache(memory: Self.memory) { slugs in
            let apps = try await (lookUps ?? pool).session { session in
                try session.execute("SELECT * FROM apps WHERE slug = ANY (\(slugs.map(\.text)))").map { row in try App(row) }
            }
            return apps.reduce(into: [:]) { $0[$1.slug] = $1 }
        }
    }

    /// - Returns: nil where there is no such app.
    package func app(_ slug: AppSlug) async throws -> App? { try await known.value(slug) }

    /// The same past the memory.
    package func read(_ slug: AppSlug) async throws -> App? {
        try await pool.session { session in
            try session.execute("SELECT * FROM apps WHERE slug = \(slug)").first.map { row in try App(row) }
        }
    }

    package func all() async throws -> [App] {
        try await pool.session { session in try session.execute("SELECT * FROM apps ORDER BY slug").map { row in try App(row) } }
    }

    package enum Creation: Equatable, Sendable {
        case created(App)
        /// The very same app was there already.
        case existed(App)
    }

    /// The dispatchers' last reports of the app's credentials.
    package func credentials(of app: App) async throws -> [AppCredential] {
        try await pool.session { session in try CredentialStore(session: session, app: app).credentials() }
    }

    /// - Throws: ``APIError`` 409 if an app of that slug is there with other properties.
    package func create(slug: AppSlug, _ properties: AppProperties, by actor: AuditActor) async throws -> Creation {
        try await pool.transaction { session in
            let row = [("slug", slug.postgresValue)] + properties.columns
            let made = try session.execute("\(insertInto: "apps", row) ON CONFLICT (slug) DO NOTHING")
            let app = try App(session.execute("SELECT * FROM apps WHERE slug = \(slug)").only())
            if made.affected == 1 {
                try AuditStore(session: session).record(.appCreated, by: actor, app: slug, object: slug.text)
                return .created(app)
            }
            guard app.properties.isSame(as: properties) else {
                throw APIError(.appDiffers, "an app of this slug exists with other properties")
            }
            return .existed(app)
        }
    }

    /// Changes an app, for this process at once and for others within ``memory``. Until then the other processes, and requests that are
    /// under way, may still register a token for a removed environment. A change that leaves everything as it was writes nothing.
    /// - Throws: ``APIError`` 404 where there is no such app, 409 if active tokens or channels live in an environment that was to go.
    package func change(_ slug: AppSlug, _ change: AppChange, by actor: AuditActor) async throws -> App {
        defer { known.forget(slug) }
        return try await pool.transaction { session in
            // One change at a time.
            let locked = try session.execute("SELECT * FROM apps WHERE slug = \(slug) FOR NO KEY UPDATE")
            guard let app = try locked.first.map({ row in try App(row) }) else { throw APIError.notFound }
            var properties = app.properties
            change.apply(to: &properties)
            guard properties != app.properties else { return app }
            for environment in app.environments where !properties.environments.contains(environment) {
                guard try !Self.isInUse(environment, app, session) else {
                    throw APIError(
                        .environmentInUse, "active tokens or broadcast channels are in \(environment.rawValue); nothing was changed")
                }
            }
            try session.execute("\(update: "apps", properties.columns), updated_at = now() WHERE slug = \(slug)")
            try AuditStore(session: session).record(.appChanged, by: actor, app: slug, object: slug.text)
            return try App(session.execute("SELECT * FROM apps WHERE slug = \(slug)").only())
        }
    }

    /// By an active or doubtful token, or a channel at Apple. The sandbox has an index of its own: few apps use it. Nearly every app's
    /// first active token is one of production.
    private static func isInUse(_ environment: APNsEnvironment, _ app: App, _ session: PostgresSession) throws -> Bool {
        let tokens: PostgresQuery =
            switch environment {
            case .production:
                "SELECT EXISTS (SELECT FROM tokens WHERE app_id = \(app.id) AND state = 'active' AND environment = 'production') AS found"
            case .sandbox:
                "SELECT EXISTS (SELECT FROM tokens WHERE app_id = \(app.id) AND state = 'active' AND environment = 'sandbox') AS found"
            }
        let doubtful: PostgresQuery = """
            SELECT EXISTS (
                SELECT FROM tokens WHERE app_id = \(app.id) AND state = 'doubtful' AND environment = \(environment)) AS found
            """
        let channels: PostgresQuery = """
            SELECT EXISTS (
                SELECT FROM channels
                WHERE app_id = \(app.id) AND environment = \(environment) AND state IN ('creating', 'open', 'deleting')) AS found
            """
        return try session.pipeline([tokens, doubtful, channels]).contains { try $0.only()["found"] }
    }
}

extension DevicePolicy: PostgresEncodable, PostgresDecodable {}

extension AppProperties {
    fileprivate var columns: [(column: StaticString, value: PostgresValue)] { Self.all.map { ($0.column, $0.stored(self)) } }
}

extension App {
    /// - Parameter row: Of `apps`.
    fileprivate init(_ row: PostgresRow) throws {
        var properties = AppProperties()
        for property in AppProperties.all { try property.load(row, &properties) }
        self.init(id: try row["id"], slug: try row["slug"], properties)
    }
}

/// A row violates its table's constraints: another program wrote it.
package struct CorruptRow: Error, CustomStringConvertible {
    package let table: String

    package init(table: String) {
        self.table = table
    }
    package var description: String { "a row of \(table) holds what its constraints forbid" }
}

/// A tenant. All but its id and slug may change, so it is kept in memory for seconds only (``AppStore/memory``).
@dynamicMemberLookup
package struct App: Equatable, Sendable {
    package typealias ID = Int64

    package let id: ID
    package let slug: AppSlug
    package let properties: AppProperties

    package init(id: ID, slug: AppSlug, _ properties: AppProperties) {
        self.id = id
        self.slug = slug
        self.properties = properties
    }

    package subscript<Part>(dynamicMember path: KeyPath<AppProperties, Part>) -> Part { properties[keyPath: path] }
}
