import Postgres
package import PushModel

/// Installations as they are shown, with their tokens: one statement and one round trip each.
extension InstallationStore {
    /// In ascending order of id; those that are unknown or deregistered are left out.
    package func records(_ installations: [PushID]) throws -> [InstallationRecord] {
        guard !installations.isEmpty else { return [] }
        return try Self.records(try session.execute(Self.records, [.int64(app.id), .ids(installations)]))
    }

    /// One page of a user's installations after a given id, in ascending order of id.
    package func page(ownedBy user: String, after cursor: PushID?, limit: Int) throws -> [InstallationRecord] {
        let from = cursor ?? .lowest
        return try Self.records(
            try session.execute(Self.ownedRecords, [.int64(app.id), .text(user), .id(from), .int64(Int64(limit))]))
    }

    /// What an answer has to wait for.
    package func unpublishedFences(of installations: [PushID]) throws -> [Fence] {
        try fences(session.execute(Self.unpublishedFences, [.int64(app.id), .ids(installations)]))
    }

    /// Fences that are still to be published of installations that the user was signed out of.
    package func openFences(of user: String) throws -> [Fence] {
        try fences(session.execute(Self.openFencesOfUser, [.int64(app.id), .text(user)]))
    }

    private func fences(_ rows: PostgresRows) throws -> [Fence] {
        try rows.map { row in
            Fence(
                id: try row.int64(0), app: app.slug, installation: try row.id(1), epochsBelow: try row.int64(2),
                at: try row.timestampMilliseconds(3))
        }
    }

    /// Rows of installations joined with their tokens, those of one installation together: what repeats is decoded once.
    static func records(_ rows: PostgresRows) throws -> [InstallationRecord] {
        var records: [InstallationRecord] = []
        var last: PushID?
        for row in rows {
            let id = try row.id(0)
            if id != last {
                records.append(try record(id, row))
                last = id
            }
            if let token = try token(row) { records[records.count - 1].tokens.append(token) }
        }
        return records
    }

    private static func record(_ id: PushID, _ row: PostgresRow) throws -> InstallationRecord {
        var profile = InstallationProfile()
        profile.locale = try row.optionalText(6)
        profile.timeZone = try row.optionalText(7)
        profile.appVersion = try row.optionalText(8)
        profile.osVersion = try row.optionalText(9)
        profile.deviceModel = try row.optionalText(10)
        profile.tags = try row.textArray(11)
        let fence: FenceState =
            switch try row.optionalBool(12) {
            case nil: .none
            case true?: .effective
            case false?: .pending
            }
        return InstallationRecord(
            id: id, user: try row.optionalText(1), ownerEpoch: try row.int64(2), tokens: [],
            throttledUntil: try row.optionalTimestampMilliseconds(3), registeredAt: try row.timestampMilliseconds(4),
            createdAt: try row.timestampMilliseconds(5), profile: profile, fence: fence)
    }

    /// Nil in the one row of an installation without tokens.
    private static func token(_ row: PostgresRow) throws -> InstallationRecord.Token? {
        guard let bytes = try row.optionalBytes(13) else { return nil }
        guard let token = DeviceToken(bytes: bytes) else { throw CorruptRow(table: "tokens") }
        let retiredAt = try row.optionalTimestampMilliseconds(17)
        let reason = try row.optionalText(18) ?? ""
        return InstallationRecord.Token(
            token: token, environment: try row.text(14), purpose: try row.text(15), registeredAt: try row.timestampMilliseconds(16),
            retired: retiredAt.map { .init(at: $0, reason: reason) })
    }
}

extension PushID {
    /// Below every id that a client may choose: where a list begins.
    static let lowest = PushID(high: 0, low: 0)
}
