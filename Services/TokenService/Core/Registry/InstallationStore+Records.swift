import Postgres
package import PushModel

/// Installations as they are shown, with their tokens: one statement and one round trip each.
extension InstallationStore {
    /// In ascending order of id; those that are unknown or deregistered are left out.
    package func records(_ installations: [PushID]) throws -> [InstallationRecord] {
        guard !installations.isEmpty else { return [] }
        return try Self.records(
            session.execute(
                """
                SELECT * FROM installation_records WHERE app_id = \(app.id) AND id = ANY (\(installations))
                ORDER BY id, state, token_registered_at DESC, token_id
                """))
    }

    /// One page of a user's installations after a given id, in ascending order of id.
    func page(ownedBy user: String, after cursor: PushID, limit: Int) throws -> [InstallationRecord] {
        try Self.records(
            session.execute(
                """
                SELECT * FROM installation_records
                WHERE app_id = \(app.id) AND id = ANY (ARRAY(
                    SELECT id FROM installations WHERE app_id = \(app.id) AND owner = \(user) AND id > \(cursor) ORDER BY id LIMIT \(limit)))
                ORDER BY id, state, token_registered_at DESC, token_id
                """))
    }

    /// - Parameter rows: Of the view `installation_records`, those of one installation together: what repeats is decoded once.
    static func records(_ rows: PostgresRows) throws -> [InstallationRecord] {
        var records: [InstallationRecord] = []
        for row in rows {
            let id: PushID = try row["id"]
            if id != records.last?.id { records.append(try record(id, row)) }
            if let token = try token(row) { records[records.count - 1].tokens.append(token) }
        }
        return records
    }

    private static func record(_ id: PushID, _ row: PostgresRow) throws -> InstallationRecord {
        InstallationRecord(
            id: id, user: try row["owner"], ownerEpoch: try row["owner_epoch"], tokens: [],
            throttledUntil: try row.milliseconds("throttled_until"), registeredAt: try row.milliseconds("registered_at"),
            createdAt: try row.milliseconds("created_at"), profile: try InstallationProfile(row),
            tags: InstallationTags.tags(in: try row["tags"]),
            fence: try row["fence"])
    }

    /// Nil in the one row of an installation without tokens.
    private static func token(_ row: PostgresRow) throws -> InstallationRecord.Token? {
        guard let token: DeviceToken = try row["token"] else { return nil }
        let retiredAt: Int64? = try row.milliseconds("retired_at")
        return InstallationRecord.Token(
            token: token, environment: try row["environment"], purpose: try row["purpose"],
            registeredAt: try row.milliseconds("token_registered_at"),
            retired: try retiredAt.map { .init(at: $0, reason: try row["retired_reason"]) })
    }
}

extension FenceState: PostgresDecodable {}
