import Postgres
import PushModel

/// Notifications that name the user, or what was the user's, among others. The entry goes and the notification stays, for the others; where it
/// names nobody else, the notification goes as a whole. Positions stay as they are: a walk that is under way counts them.
///
/// What a walk made of the list needs no more than that: chunks hold the ids of tokens, which tell nothing once the tokens are gone.
extension ErasureStore {
    struct Listing: Sendable {
        /// They name nobody else and are still to be removed.
        var only: [PushID] = []
        /// The last one that was looked at; nil at the end.
        var last: PushID?
    }

    /// Takes the name out of the next notifications to lists of users.
    func leaveUserLists(after cursor: PushID) throws -> Listing {
        try listing(of: Self.leaveUserLists, [.int64(app.id), .text(user), .id(cursor), .int64(Self.notificationBatch)])
    }

    /// Takes installations and their tokens out of the next notifications to lists of such, as far as they were accepted during these times.
    func leaveInstallationLists(_ ended: [Ended], after cursor: PushID) throws -> Listing {
        try listing(
            of: Self.leaveInstallationLists,
            [
                .int64(app.id), .ids(ended.map(\.installation)), .int64Array(ended.map(\.epochsFrom)),
                .int64Array(ended.map(\.epochsBelow)), .id(cursor), .int64(Self.notificationBatch),
            ])
    }

    /// - Returns: how many there were.
    func removeQuietHours() throws -> Int {
        try session.execute(Self.removeQuietHours, [.int64(app.id), .text(user)]).affected
    }

    private func listing(of statement: PostgresStatement, _ parameters: [PostgresValue]) throws -> Listing {
        var listing = Listing()
        for row in try session.execute(statement, parameters) {
            let id = try row.id(0)
            if try row.bool(1) { listing.only.append(id) }
            listing.last = id
        }
        return listing
    }

    /// Found first and put in order then, here and below: a plan must not walk all notifications in the order of their ids.
    private static let leaveUserLists: PostgresStatement = """
        WITH found AS MATERIALIZED (
            SELECT id FROM notifications WHERE target_users @> ARRAY[$2::text] AND app_id = $1 AND id > $3
        ), page AS (
            SELECT id, array_remove(array_remove(target_users, $2::text), NULL) = '{}' AS is_only FROM notifications
            WHERE id = ANY (ARRAY(SELECT id FROM found ORDER BY id LIMIT $4)) ORDER BY id FOR NO KEY UPDATE
        ), left_out AS (
            UPDATE notifications n SET target_users = array_replace(n.target_users, $2::text, NULL) FROM page
            WHERE n.id = page.id AND NOT page.is_only
        )
        SELECT id, is_only FROM page ORDER BY id
        """
    /// The epoch of an entry tells whose the installation was when the notification was accepted.
    private static let leaveInstallationLists: PostgresStatement = """
        WITH ended AS MATERIALIZED (
            SELECT * FROM unnest($2::uuid[], $3::bigint[], $4::bigint[]) AS e (installation, epochs_from, epochs_below)
        ), found AS MATERIALIZED (
            SELECT n.id FROM notifications n
            WHERE coalesce(n.target_installations, n.target_holders) && $2::uuid[]
                AND (n.target_installations IS NOT NULL OR n.target_holders IS NOT NULL) AND n.app_id = $1 AND n.id > $5
                AND EXISTS (
                    SELECT FROM unnest(coalesce(n.target_installations, n.target_holders), n.target_epochs) AS named (id, epoch)
                    JOIN ended e ON e.installation = named.id AND named.epoch >= e.epochs_from AND named.epoch < e.epochs_below
                    WHERE named.id = ANY ($2::uuid[]))
        ), page AS (
            SELECT id, target_installations, target_tokens, target_holders, target_epochs FROM notifications
            WHERE id = ANY (ARRAY(SELECT id FROM found ORDER BY id LIMIT $6)) ORDER BY id FOR NO KEY UPDATE
        ), left_over AS (
            SELECT p.id, list.* FROM page p CROSS JOIN LATERAL (
                SELECT array_agg(named.installation ORDER BY place) AS installations, array_agg(named.token ORDER BY place) AS tokens,
                    array_agg(named.holder ORDER BY place) AS holders, array_agg(named.epoch ORDER BY place) AS epochs,
                    bool_and(num_nonnulls(named.installation, named.token) = 0) AS is_empty
                FROM (
                    SELECT entry.place, CASE WHEN stays THEN entry.installation END AS installation, CASE WHEN stays THEN entry.token END AS token,
                        CASE WHEN stays THEN entry.holder END AS holder, CASE WHEN stays THEN entry.epoch END AS epoch
                    FROM unnest(p.target_installations, p.target_tokens, p.target_holders, p.target_epochs) WITH ORDINALITY
                        AS entry (installation, token, holder, epoch, place)
                    CROSS JOIN LATERAL (
                        SELECT (coalesce(entry.installation, entry.holder) = ANY ($2::uuid[])) IS NOT TRUE OR NOT EXISTS (
                            SELECT FROM ended e WHERE e.installation = coalesce(entry.installation, entry.holder)
                                AND entry.epoch >= e.epochs_from AND entry.epoch < e.epochs_below) AS stays
                    ) AS judged
                ) AS named
            ) AS list
        ), left_out AS (
            UPDATE notifications n SET target_epochs = l.epochs,
                target_installations = CASE WHEN n.target_installations IS NOT NULL THEN l.installations END,
                target_tokens = CASE WHEN n.target_tokens IS NOT NULL THEN l.tokens END,
                target_holders = CASE WHEN n.target_holders IS NOT NULL THEN l.holders END
            FROM left_over l WHERE n.id = l.id AND NOT l.is_empty
        )
        SELECT id, is_empty FROM left_over ORDER BY id
        """
    private static let removeQuietHours: PostgresStatement = "DELETE FROM quiet_hours WHERE app_id = $1 AND owner = $2"
}
