package import Postgres
package import PushModel
package import TokenServiceApps

/// The tokens in quarantine of one app, within one transaction. They are retired rows with a mark. A registration that names such a token
/// removes the mark; the housekeeping removes it after ``retentionDays``.
package struct QuarantineStore {
    /// How long a token can be restored. After that it stays retired.
    package static let retentionDays = 30
    package static let maximumCounted = 100_000

    private let session: PostgresSession
    private let app: App

    package init(session: PostgresSession, app: App) {
        self.session = session
        self.app = app
    }

    package struct Page: Sendable {
        package var tokens: [QuarantinedToken]
        /// How many tokens are in quarantine, on all pages, counted to ``maximumCounted``.
        package var total: Int
        /// The last token that is shown, where more follow.
        package var last: Int64?
    }

    package func page(after id: Int64, limit: Int) throws -> Page {
        let tokens = try session.execute(
            """
            SELECT * FROM tokens WHERE app_id = \(app.id) AND (quarantined_at IS NOT NULL) IS TRUE AND id > \(id) ORDER BY id
                LIMIT \(limit + 1)
            """
        ).map { row in try QuarantinedToken(row) }
        return Page(
            tokens: Array(tokens.prefix(limit)), total: try count(of: nil), last: tokens.count > limit ? tokens[limit - 1].id : nil)
    }

    /// How many are in quarantine; with named installations, only theirs.
    /// - Parameter limit: Counts no further: it may be half of an app.
    package func count(of installations: [PushID]?, upTo limit: Int = maximumCounted) throws -> Int {
        if let installations {
            return try session.execute(
                """
                SELECT count(*) AS count FROM (
                    SELECT FROM tokens
                    WHERE app_id = \(app.id) AND installation = ANY (\(installations)) AND quarantined_at IS NOT NULL LIMIT \(limit)
                ) AS found
                """
            ).only()["count"]
        }
        return try session.execute(
            """
            SELECT count(*) AS count FROM (
                SELECT FROM tokens WHERE app_id = \(app.id) AND (quarantined_at IS NOT NULL) IS TRUE LIMIT \(limit)
            ) AS found
            """
        ).only()["count"]
    }

    /// Takes the next tokens out of quarantine, each as ``RegistryBatch`` decides. It commits.
    /// - Parameter last: The last of the tokens before: while a snapshot is open, their entries of the index stay.
    /// - Returns: how many it took out, how many of them are active again, and the last one; nil if none is left.
    func restore(
        _ installations: [PushID]?, after last: Int64, limit: Int, by actor: AuditActor
    ) throws -> (takenOut: Int, restored: Int, last: Int64)? {
        let rows =
            if let installations {
                try session.execute(
                    """
                    SELECT id, installation, token FROM tokens
                    WHERE app_id = \(app.id) AND installation = ANY (\(installations)) AND quarantined_at IS NOT NULL AND id > \(last)
                    ORDER BY id LIMIT \(limit)
                    """)
            } else {
                try session.execute(
                    """
                    SELECT id, installation, token FROM tokens WHERE app_id = \(app.id) AND (quarantined_at IS NOT NULL) IS TRUE
                        AND id > \(last)
                    ORDER BY id LIMIT \(limit)
                    """)
            }
        let candidates: [Int64] = try rows.column("id")
        guard let end = candidates.last else { return nil }
        let needs = RegistryStore.Needs(
            app: app.id, installations: Array(Set(try rows.column("installation"))), tokens: Array(Set(try rows.column("token"))))
        let names = RegistryLock.keys(app: app.id, installations: needs.installations, tokens: needs.tokens)
        let registry = RegistryStore(session: session)
        var batch = try registry.load([needs], locking: names).batch
        // Another call, or a registration, may have taken one of them out before the locks were granted.
        let waiting = candidates.filter { id in batch.index(ofToken: id).map { batch.tokens[$0].quarantinedAt != nil } ?? false }
        let restored = batch.apply(toTokens: waiting.map { .restore(token: $0) })
        if !waiting.isEmpty {
            let object = installations?.count == 1 ? installations?.first?.description : nil
            try AuditStore(session: session).record(
                .quarantineRestored, by: actor, app: app.slug, object: object, count: waiting.count)
        }
        try registry.save(batch)
        return (waiting.count, restored, end)
    }
}

extension QuarantinedToken {
    /// - Parameter row: A row of `tokens`.
    fileprivate init(_ row: PostgresRow) throws {
        let token: DeviceToken = try row["token"]
        self.init(
            id: try row["id"], installation: try row["installation"], hint: token.hint, environment: try row["environment"],
            purpose: try row["purpose"], retiredAt: try row.milliseconds("retired_at"),
            quarantinedAt: try row.milliseconds("quarantined_at"))
    }
}
