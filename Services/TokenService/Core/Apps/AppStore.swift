package import Postgres
package import PushModel
import Synchronization

/// The `apps` table, remembered: apps do not change, and every request names one.
package final class AppStore: Sendable {
    private let pool: PostgresPool
    private let known = Mutex<[AppSlug: App]>([:])

    package init(pool: PostgresPool) { self.pool = pool }

    /// - Returns: nil where there is no such app.
    package func app(_ slug: AppSlug) async throws -> App? {
        if let app = known.withLock({ $0[slug] }) { return app }
        let app = try await pool.session { session in
            try session.execute(Self.select, [.text(slug.text)]).first.map { row in try Self.app(row) }
        }
        if let app { known.withLock { $0[slug] = app } }
        return app
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

    package func create(
        slug: AppSlug, bundleID: String, devicePolicy: DevicePolicy, environments: [APNsEnvironment]
    ) async throws -> Creation {
        try await pool.transaction { session in
            let made = try session.execute(
                Self.insert,
                [.text(slug.text), .text(bundleID), .text(devicePolicy.rawValue), .textArray(environments.map(\.rawValue))])
            let app = try Self.app(session.execute(Self.select, [.text(slug.text)]).only())
            if made.affected == 1 { return .created(app) }
            let same =
                app.bundleID == bundleID && app.devicePolicy == devicePolicy && Set(app.environments) == Set(environments)
            return same ? .existed(app) : .differs
        }
    }

    private static func app(_ row: PostgresRow) throws -> App {
        guard let slug = AppSlug(try row.text(1)), let policy = DevicePolicy(rawValue: try row.text(3)) else {
            throw CorruptRow(table: "apps")
        }
        return App(
            id: try row.int64(0), slug: slug, bundleID: try row.text(2), devicePolicy: policy,
            environments: try row.textArray(4).compactMap(APNsEnvironment.init(rawValue:)))
    }

    private static let select: PostgresStatement =
        "SELECT id, slug, bundle_id, device_policy, environments FROM apps WHERE slug = $1"
    private static let selectAll: PostgresStatement =
        "SELECT id, slug, bundle_id, device_policy, environments FROM apps ORDER BY slug"
    private static let insert: PostgresStatement = """
        INSERT INTO apps (slug, bundle_id, device_policy, environments) VALUES ($1, $2, $3, $4) ON CONFLICT (slug) DO NOTHING
        """
}

/// A row holds what its table's constraints forbid: another program's work.
package struct CorruptRow: Error, CustomStringConvertible {
    package let table: String
    package var description: String { "a row of \(table) holds what its constraints forbid" }
}
