package import Postgres
package import PushModel

/// The tokens in quarantine of one app, within one transaction. They are retired rows with a mark: a registration that names such a token
/// takes the mark away, and the housekeeping does after ``retentionDays``.
package struct QuarantineStore {
    /// How long a token can be restored. What nobody restored in this time stays retired.
    package static let retentionDays = 30

    private let session: PostgresSession
    private let app: App.ID

    package init(session: PostgresSession, app: App.ID) {
        self.session = session
        self.app = app
    }

    package struct Page: Sendable {
        package var tokens: [QuarantinedToken]
        /// In quarantine, on all pages.
        package var total: Int
        /// The last token that is shown, where more follow.
        package var last: Int64?
    }

    package struct Restored: Equatable, Sendable {
        package var restored = 0
        /// Left quarantine without coming back to life: something newer is in their place.
        package var superseded = 0
    }

    /// A token in quarantine that is about to be judged.
    package struct Candidate: Sendable {
        package let id: Int64
        package let installation: PushID
        package let token: DeviceToken
    }

    package func page(after id: Int64, limit: Int) throws -> Page {
        let answers = try session.pipeline([
            (Self.page, [.int64(app), .int64(id), .int64(Int64(limit) + 1)]), (Self.countAll, [.int64(app)]),
        ])
        let tokens = try answers[0].map { row in try Self.token(row) }
        return Page(
            tokens: Array(tokens.prefix(limit)), total: Int(try answers[1].only().int64(0)),
            last: tokens.count > limit ? tokens[limit - 1].id : nil)
    }

    /// How many are in quarantine; of these installations only, where some are named.
    package func count(of installations: [PushID]?) throws -> Int {
        guard let installations else { return Int(try session.execute(Self.countAll, [.int64(app)]).only().int64(0)) }
        return Int(try session.execute(Self.countNamed, [.int64(app), .ids(installations)]).only().int64(0))
    }

    package func candidates(of installations: [PushID]?, limit: Int) throws -> [Candidate] {
        let rows =
            if let installations {
                try session.execute(Self.namedCandidates, [.int64(app), .ids(installations), .int64(Int64(limit))])
            } else {
                try session.execute(Self.candidates, [.int64(app), .int64(Int64(limit))])
            }
        return try rows.map { row in
            guard let token = DeviceToken(bytes: try row.bytes(2)) else { throw CorruptRow(table: "tokens") }
            return Candidate(id: try row.int64(0), installation: try row.id(1), token: token)
        }
    }

    /// Judges each as it is now, after its locks were granted: nothing newer is ever overwritten.
    package func restore(_ candidates: [Candidate]) throws -> Restored {
        try session.execute(Self.lockInstallations, [.int64(app), .ids(Set(candidates.map(\.installation)).sorted())])
        try session.execute(Self.lockTokens, [.int64Array(candidates.map(\.id))])
        let row = try session.execute(Self.restore, [.int64(app), .int64Array(candidates.map(\.id))]).only()
        return Restored(restored: Int(try row.int64(0)), superseded: Int(try row.int64(1)))
    }

    private static func token(_ row: PostgresRow) throws -> QuarantinedToken {
        guard let token = DeviceToken(bytes: try row.bytes(2)) else { throw CorruptRow(table: "tokens") }
        return QuarantinedToken(
            id: try row.int64(0), installation: try row.id(1), hint: token.hint, environment: try row.text(3), purpose: try row.text(4),
            retiredAt: try row.timestampMilliseconds(5), quarantinedAt: try row.timestampMilliseconds(6))
    }
}

extension QuarantineStore {
    private static let page: PostgresStatement = """
        SELECT id, installation, token, environment, purpose, retired_at, quarantined_at FROM tokens
        WHERE app_id = $1 AND quarantined_at IS NOT NULL AND id > $2 ORDER BY id LIMIT $3
        """
    private static let countAll: PostgresStatement = "SELECT count(*) FROM tokens WHERE app_id = $1 AND quarantined_at IS NOT NULL"
    private static let countNamed: PostgresStatement = """
        SELECT count(*) FROM tokens WHERE app_id = $1 AND installation = ANY ($2::uuid[]) AND quarantined_at IS NOT NULL
        """
    private static let candidates: PostgresStatement = """
        SELECT id, installation, token FROM tokens WHERE app_id = $1 AND quarantined_at IS NOT NULL ORDER BY id LIMIT $2
        """
    private static let namedCandidates: PostgresStatement = """
        SELECT id, installation, token FROM tokens
        WHERE app_id = $1 AND installation = ANY ($2::uuid[]) AND quarantined_at IS NOT NULL ORDER BY id LIMIT $3
        """
    private static let lockInstallations: PostgresStatement = """
        SELECT count(*) FROM (
            SELECT id FROM installations WHERE app_id = $1 AND id = ANY ($2::uuid[]) ORDER BY id FOR NO KEY UPDATE
        ) AS locked
        """
    private static let lockTokens: PostgresStatement =
        "SELECT count(*) FROM (SELECT id FROM tokens WHERE id = ANY ($1::bigint[]) ORDER BY id FOR NO KEY UPDATE) AS locked"

    /// Superseded: another token is alive in its place, or was put into quarantine from its place later; the same token is alive in
    /// another place; or the installation was deregistered.
    private static let restore: PostgresStatement = """
        WITH judged AS MATERIALIZED (
            SELECT t.id,
                NOT EXISTS (
                    SELECT FROM tokens o WHERE o.app_id = t.app_id AND o.installation = t.installation AND o.id <> t.id
                        -- IS TRUE: by the installation and the token, of all indexes that begin with the app.
                        AND (o.purpose = t.purpose AND o.environment = t.environment) IS TRUE
                        AND (o.state = 'active' OR o.quarantined_at IS NOT NULL AND (o.registered_at, o.id) > (t.registered_at, t.id)))
                AND NOT EXISTS (
                    SELECT FROM tokens o WHERE o.app_id = t.app_id AND o.token = t.token AND o.purpose = t.purpose AND o.id <> t.id
                        AND (o.state = 'active') IS TRUE)
                AND EXISTS (
                    SELECT FROM installations i WHERE i.app_id = t.app_id AND i.id = t.installation AND i.deregistered_at IS NULL)
                AS may_live
            FROM tokens t WHERE t.app_id = $1 AND t.id = ANY ($2::bigint[]) AND (t.quarantined_at IS NOT NULL) IS TRUE
        ), changed AS (
            UPDATE tokens t SET quarantined_at = NULL,
                state = CASE WHEN may_live THEN 'active' ELSE t.state END,
                retired_at = CASE WHEN may_live THEN NULL ELSE t.retired_at END,
                retired_reason = CASE WHEN may_live THEN NULL ELSE t.retired_reason END
            FROM judged j WHERE t.id = j.id
            RETURNING t.id, t.installation, t.token, t.environment, t.purpose, j.may_live
        ), told AS (
            INSERT INTO installation_history (app_id, installation, at, event, token_id, token_hint, environment, purpose)
            SELECT $1, installation, now(), 'token_restored', id, '…' || right(encode(token, 'hex'), 6), environment, purpose
            FROM changed WHERE may_live ORDER BY id
        )
        SELECT count(*) FILTER (WHERE may_live), count(*) FILTER (WHERE NOT may_live) FROM changed
        """
}
