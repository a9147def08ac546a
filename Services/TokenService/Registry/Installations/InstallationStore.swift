package import Postgres
package import PushModel
package import TokenServiceApps

/// Reads installations of one app within one transaction.
package struct InstallationStore {
    let session: PostgresSession
    let app: App
    /// An installation may have hundreds of tokens (``InstallationBounds``) and kilobytes of tags.
    let bytesPerPage: Int

    package init(session: PostgresSession, app: App, bytesPerPage: Int = PageBytes.maximum) {
        self.session = session
        self.app = app
        self.bytesPerPage = bytesPerPage
    }

    /// One page of them, in ascending order.
    package func installations(ownedBy user: String, after cursor: PushID, limit: Int) throws -> [PushID] {
        try session.execute(
            "SELECT id FROM installations WHERE app_id = \(app.id) AND owner = \(user) AND id > \(cursor) ORDER BY id LIMIT \(limit)"
        ).column("id")
    }

    /// What a device credential that is made now names: the installation's epoch, also if it was deregistered, and 0 if there is none; and
    /// the moment in UNIX microseconds, by PostgreSQL's clock before it looked. The moment is later than every sign-out of the user or at
    /// the installation that is known, also if the clock was set back since.
    func beginning(ofCredentialFor user: String?, at installation: PushID) throws -> (epoch: Int64, issuedAt: Int64) {
        let names = SignOutMoments.Name.all(of: user, at: InstallationKey(app: app.id, id: installation))
        let answers = try session.pipeline([
            """
            SELECT coalesce((SELECT owner_epoch FROM installations WHERE app_id = \(app.id) AND id = \(installation)), 0) AS owner_epoch,
                floor(extract(epoch FROM now()) * 1000000)::bigint AS now
            """,
            SignOutMoments.read(names),
        ])
        let row = try answers[0].only()
        return (epoch: try row["owner_epoch"], issuedAt: try max(row["now"], SignOutMoments(names, answers[1]).latest + 1))
    }

    /// Unpublished fences of installations that the user was signed out of, by the user's latest 5,000 lines of history.
    package func openFences(of user: String) throws -> [Fence] {
        try session.execute(
            """
            SELECT f.* FROM (
                SELECT installation, min(owner_epoch) AS owner_epoch FROM (
                    SELECT installation, owner_epoch, event FROM installation_history
                    WHERE app_id = \(app.id) AND owner = \(user) ORDER BY id DESC LIMIT 5000
                ) AS latest WHERE event = 'signed_out' GROUP BY installation
            ) AS h
            CROSS JOIN LATERAL open_fences_of(\(app.id), h.installation) AS f
            WHERE f.epochs_below > h.owner_epoch ORDER BY f.id
            """
        ).map { row in try Fence(row) }
    }
}

extension PushID {
    /// An id below every one that a client may choose: the beginning of a list.
    package static let lowest = PushID(high: 0, low: 0)
}

/// Installations as they are shown, with their tokens: one statement each, so that an installation and its tokens are of one moment.
extension InstallationStore {
    /// Reads installations in ascending order of id; those that are unknown or deregistered are left out.
    package func records(_ installations: [PushID]) throws -> [InstallationRecord] {
        guard !installations.isEmpty else { return [] }
        return try Self.records(
            session.execute(
                """
                SELECT * FROM installation_records WHERE app_id = \(app.id) AND id = ANY (\(installations))
                ORDER BY id, state NULLS FIRST, token_registered_at DESC, token_id
                """))
    }

    /// Some of these installations, the first ones in ascending order of id: as many as a page has room for (``PageBytes``), and at least
    /// one.
    package func withinBytes(_ installations: [PushID]) throws -> [PushID] {
        guard installations.count > 1 else { return installations }
        return try session.execute(
            """
            SELECT id FROM (
                SELECT i.id, (sum(s.bytes) OVER (ORDER BY i.id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING))::bigint AS before
                FROM unnest(\(installations)::uuid[]) AS i (id) JOIN installation_sizes s ON s.app_id = \(app.id) AND s.id = i.id
            ) AS measured
            WHERE coalesce(before, 0) < \(bytesPerPage) ORDER BY id
            """
        ).column("id")
    }

    /// One page of a user's installations after a given id, in ascending order of id. It ends as ``withinBytes(_:)`` says.
    /// - Returns: The page, and the ids that were found for it: more of them if the page had no room.
    func page(ownedBy user: String, after cursor: PushID, limit: Int) throws -> (records: [InstallationRecord], found: [PushID]) {
        let few = min(limit, Self.few)
        let answers = try session.pipeline([
            """
            SELECT * FROM installation_records
            WHERE app_id = \(app.id) AND id = ANY (ARRAY(
                SELECT id FROM installations WHERE app_id = \(app.id) AND owner = \(user) AND id > \(cursor) ORDER BY id LIMIT \(few)))
            ORDER BY id, state NULLS FIRST, token_registered_at DESC, token_id
            """,
            "SELECT id FROM installations WHERE app_id = \(app.id) AND owner = \(user) AND id > \(cursor) ORDER BY id LIMIT \(limit)",
        ])
        let found: [PushID] = try answers[1].column("id")
        return (found.count <= few ? try Self.records(answers[0]) : try records(withinBytes(found)), found)
    }

    /// So many have room in a page: one takes 245 KB at most, with its tokens of any state. They need not be measured.
    private static let few = 4

    /// - Parameter rows: Rows of the view `installation_records`, those of one installation together, and the one without a token first.
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

    /// Reads the row's token; nil in the installation's own row.
    private static func token(_ row: PostgresRow) throws -> InstallationRecord.Token? {
        guard let token: DeviceToken = try row["token"] else { return nil }
        let (retiredAt, state): (Int64?, String) = (try row.milliseconds("retired_at"), try row["state"])
        return InstallationRecord.Token(
            token: token, environment: try row["environment"], purpose: try row["purpose"],
            registeredAt: try row.milliseconds("token_registered_at"),
            retired: try retiredAt.map { .init(at: $0, reason: try row["retired_reason"]) }, isDoubtful: state == "doubtful",
            endedByAPNsAt: try row.milliseconds("ended_by_apns_at"))
    }
}

extension FenceState: PostgresDecodable {}
