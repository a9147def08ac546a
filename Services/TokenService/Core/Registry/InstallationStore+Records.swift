import Postgres
package import PushModel

extension InstallationStore {
    /// In ascending order of id; those that are unknown or deregistered are left out.
    package func records(_ installations: [PushID]) throws -> [InstallationRecord] {
        guard !installations.isEmpty else { return [] }
        let rows = try session.execute(Self.records, [.int64(app.id), .ids(installations)])
        var tokens: [PushID: [InstallationRecord.Token]] = [:]
        for row in try session.execute(Self.recordTokens, [.int64(app.id), .ids(installations)]) {
            tokens[try row.id(0), default: []].append(try Self.token(row))
        }
        return try rows.map { row in try Self.record(row, tokens: tokens[row.id(0)] ?? []) }
    }

    /// One page of a user's installations after a given id.
    package func page(ownedBy user: String, after cursor: PushID?, limit: Int) throws -> [InstallationRecord] {
        let from = cursor ?? PushID(high: 0, low: 0)
        let page = try session.execute(Self.ownedPage, [.int64(app.id), .text(user), .id(from), .int64(Int64(limit))])
        return try records(page.map { row in try row.id(0) })
    }

    /// What an answer has to wait for.
    package func unpublishedFences(of installations: [PushID]) throws -> [Fence] {
        try session.execute(Self.unpublishedFences, [.int64(app.id), .ids(installations)]).map { row in
            Fence(
                id: try row.int64(0), app: app.slug, installation: try row.id(1), epochsBelow: try row.int64(2),
                at: try row.timestampMilliseconds(3))
        }
    }

    private static func record(_ row: PostgresRow, tokens: [InstallationRecord.Token]) throws -> InstallationRecord {
        var profile = InstallationProfile()
        profile.locale = try row.optionalText(6)
        profile.timeZone = try row.optionalText(7)
        profile.appVersion = try row.optionalText(8)
        profile.osVersion = try row.optionalText(9)
        profile.deviceModel = try row.optionalText(10)
        profile.tags = try row.textArray(11)
        return InstallationRecord(
            id: try row.id(0), user: try row.optionalText(1), ownerEpoch: try row.int64(2), tokens: tokens,
            throttledUntil: try row.optionalTimestampMilliseconds(3), registeredAt: try row.timestampMilliseconds(4),
            createdAt: try row.timestampMilliseconds(5), profile: profile, fence: FenceState(rawValue: try row.text(12)) ?? .none)
    }

    private static func token(_ row: PostgresRow) throws -> InstallationRecord.Token {
        let retiredAt = try row.optionalTimestampMilliseconds(5)
        let reason = try row.optionalText(6) ?? ""
        guard let token = DeviceToken(bytes: try row.bytes(1)) else { throw CorruptRow(table: "tokens") }
        return InstallationRecord.Token(
            token: token, environment: try row.text(2), purpose: try row.text(3),
            registeredAt: try row.timestampMilliseconds(4), retired: retiredAt.map { .init(at: $0, reason: reason) })
    }
}
