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

    /// Also of one that was deregistered; 0 if there is none.
    func ownerEpoch(of installation: PushID) throws -> Int64 {
        let epochs: [Int64] = try session.execute(
            "SELECT owner_epoch FROM installations WHERE app_id = \(app.id) AND id = \(installation)"
        ).column("owner_epoch")
        return epochs.first ?? 0
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
    /// Below every id that a client may choose: the beginning of a list.
    package static let lowest = PushID(high: 0, low: 0)
}
