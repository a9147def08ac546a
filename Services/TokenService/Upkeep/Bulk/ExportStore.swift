import Postgres
import PushModel
import TokenServiceApps
import TokenServiceRegistry

/// Reads an app's registry in order of installation, page by page, each page in a statement of its own.
struct ExportStore {
    let session: PostgresSession
    let app: App

    init(session: PostgresSession, app: App) {
        self.session = session
        self.app = app
    }

    /// Reads registered installations, with an owner or without; at most `limit`, and as many as a page has room for (``PageBytes``). None:
    /// there are no more.
    func page(after cursor: PushID?, limit: Int) throws -> [ExportedInstallation] {
        try session.execute(
            """
            SELECT i.*, t.* FROM (
                SELECT * FROM installations
                WHERE app_id = \(app.id) AND id = ANY (ARRAY(
                    SELECT id FROM (
                        SELECT i.id, (sum(s.bytes) OVER (ORDER BY i.id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING))::bigint AS before
                        FROM (
                            SELECT id FROM installations
                            WHERE app_id = \(app.id) AND id > \(cursor ?? .lowest) AND deregistered_at IS NULL ORDER BY id LIMIT \(limit)
                        ) AS i
                        JOIN installation_sizes s ON s.app_id = \(app.id) AND s.id = i.id
                    ) AS measured
                    WHERE coalesce(before, 0) < \(PageBytes.maximum)))
            ) AS i
            CROSS JOIN LATERAL (
                SELECT coalesce(array_agg(token ORDER BY purpose, environment), '{}') AS tokens,
                    coalesce(array_agg(environment ORDER BY purpose, environment), '{}') AS environments,
                    coalesce(array_agg(purpose ORDER BY purpose, environment), '{}') AS purposes
                FROM tokens t WHERE t.app_id = i.app_id AND t.installation = i.id AND t.state <> 'retired'
            ) AS t
            ORDER BY i.id
            """
        ).map { row in try ExportedInstallation(row) }
    }
}

extension ExportedInstallation {
    fileprivate init(_ row: PostgresRow) throws {
        let (values, environments, purposes): ([[UInt8]], [String], [String]) = (
            try row["tokens"], try row["environments"], try row["purposes"]
        )
        let tokens = try values.indices.map { index in
            guard let token = DeviceToken(bytes: values[index]), let environment = APNsEnvironment(rawValue: environments[index]),
                let purpose = Purpose(rawValue: purposes[index])
            else { throw CorruptRow(table: "tokens") }
            return RegisteredToken(token: token, environment: environment, purpose: purpose)
        }
        self.init(
            id: try row["id"], user: try row["owner"], tokens: tokens, profile: try InstallationProfile(row),
            tags: InstallationTags.tags(in: try row["tags"]))
    }
}
