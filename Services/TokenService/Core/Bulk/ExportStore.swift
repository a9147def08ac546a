package import Postgres
package import PushModel

/// Reads the registry in order of installation, page by page, each page in a statement of its own.
package struct ExportStore: Sendable {
    private let pool: PostgresPool

    package init(pool: PostgresPool) { self.pool = pool }

    /// Those that are registered, be it without an owner. Fewer than `limit`: there are no more.
    package func page(of app: App, after cursor: PushID?, limit: Int) async throws -> [ExportedInstallation] {
        try await pool.session { session in
            try session.execute(Self.page, [.int64(app.id), .optionalID(cursor), .int64(Int64(limit))]).map { row in
                try Self.installation(row)
            }
        }
    }

    private static func installation(_ row: PostgresRow) throws -> ExportedInstallation {
        var profile = InstallationProfile()
        profile.locale = try row.optionalText(2)
        profile.timeZone = try row.optionalText(3)
        profile.appVersion = try row.optionalText(4)
        profile.osVersion = try row.optionalText(5)
        profile.deviceModel = try row.optionalText(6)
        profile.tags = try row.textArray(7)
        let (values, environments, purposes) = (try row.bytesArray(8), try row.textArray(9), try row.textArray(10))
        let tokens = try values.indices.map { index in
            guard let token = DeviceToken(bytes: values[index]), let environment = APNsEnvironment(rawValue: environments[index]),
                let purpose = Purpose(rawValue: purposes[index])
            else { throw CorruptRow(table: "tokens") }
            return RegisteredToken(token: token, environment: environment, purpose: purpose)
        }
        return ExportedInstallation(id: try row.id(0), user: try row.optionalText(1), tokens: tokens, profile: profile)
    }

    private static let page: PostgresStatement = """
        SELECT i.id, i.owner, i.locale, i.time_zone, i.app_version, i.os_version, i.device_model, i.tags,
            coalesce(t.tokens, '{}'), coalesce(t.environments, '{}'), coalesce(t.purposes, '{}')
        FROM (
            SELECT app_id, id, ordinal, owner, locale, time_zone, app_version, os_version, device_model, tags FROM installations
            WHERE app_id = $1 AND id >= coalesce($2::uuid, '00000000-0000-0000-0000-000000000000') AND id IS DISTINCT FROM $2::uuid
                AND deregistered_at IS NULL
            ORDER BY id LIMIT $3
        ) AS i
        LEFT JOIN LATERAL (
            SELECT array_agg(token ORDER BY purpose, environment) AS tokens,
                array_agg(environment ORDER BY purpose, environment) AS environments,
                array_agg(purpose ORDER BY purpose, environment) AS purposes
            FROM tokens t WHERE t.app_id = i.app_id AND t.ordinal = i.ordinal AND t.state = 'active'
        ) AS t ON true
        ORDER BY i.id
        """
}
