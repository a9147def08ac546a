import Postgres
import PushModel

/// Notifications that name the user, or what was the user's, among others. The entry goes and the notification stays, for the others; where it
/// names nobody else, the notification goes as a whole. Positions stay as they are: a fan-out that is under way counts them.
///
/// The jobs that fan-out made of the list need no more than that: they hold the ids of tokens, which name no user once the tokens are erased.
extension ErasureStore {
    struct Listing: Sendable {
        /// They name nobody else and are still to be removed.
        var only: [PushID] = []
        /// The last one that was looked at; nil at the end.
        var last: PushID?
    }

    /// Takes the name out of the next notifications to lists of users. They are found first and put in order then, here and below: a plan
    /// must not read all notifications in the order of their ids.
    func leaveUserLists(after cursor: PushID) throws -> Listing {
        try listing(
            session.execute(
                """
                WITH found AS MATERIALIZED (
                    SELECT id FROM notifications WHERE target_users @> ARRAY[\(user)] AND app_id = \(app.id) AND id > \(cursor)
                ), page AS (
                    SELECT n.id, array_remove(array_remove(n.target_users, \(user)), NULL) = '{}' AS is_only
                    FROM (SELECT id FROM found ORDER BY id LIMIT \(Self.notificationBatch)) AS next JOIN notifications n ON n.id = next.id
                    ORDER BY n.id FOR NO KEY UPDATE OF n
                ), left_out AS (
                    UPDATE notifications n SET target_users = array_replace(n.target_users, \(user), NULL) FROM page
                    WHERE n.id = page.id AND NOT page.is_only
                )
                SELECT id, is_only FROM page ORDER BY id
                """))
    }

    /// Takes installations and their tokens out of the next notifications to lists of such, as far as they were accepted during these times.
    func leaveInstallationLists(_ ended: [Ended], after cursor: PushID) throws -> Listing {
        let page = try session.execute(
            """
            WITH found AS MATERIALIZED (
                SELECT id FROM notifications
                WHERE coalesce(target_installations, target_holders) && \(ended.map(\.installation))
                    AND (target_installations IS NOT NULL OR target_holders IS NOT NULL) AND app_id = \(app.id) AND id > \(cursor)
            )
            SELECT n.id, n.target_installations, n.target_tokens, n.target_holders, n.target_epochs
            FROM (SELECT id FROM found ORDER BY id LIMIT \(Self.notificationBatch)) AS next JOIN notifications n ON n.id = next.id
            ORDER BY n.id FOR NO KEY UPDATE OF n
            """
        ).map { row in try TargetList(row) }
        let times = Dictionary(grouping: ended, by: \.installation)
        let left = page.map { $0.without(times) }
        let changed = zip(page, left).filter { $0 != $1 && !$1.isEmpty }.map(\.1)
        if !changed.isEmpty { try session.pipeline(changed.map(\.update)) }
        return Listing(only: left.filter(\.isEmpty).map(\.id), last: page.last?.id)
    }

    private func listing(_ rows: PostgresRows) throws -> Listing {
        var listing = Listing()
        for row in rows {
            if try row["is_only"] { listing.only.append(try row["id"]) }
            listing.last = try row["id"]
        }
        return listing
    }
}

/// The list of installations or tokens that one notification names. An entry that is gone is nil in each column.
private struct TargetList: Equatable {
    let id: PushID
    var installations: [PushID?]?
    var tokens: [[UInt8]?]?
    /// Of tokens: who held them when the notification was accepted.
    var holders: [PushID?]?
    /// Tell whose the installations were then.
    var epochs: [Int64?]?

    init(_ row: PostgresRow) throws {
        id = try row["id"]
        installations = try row["target_installations"]
        tokens = try row["target_tokens"]
        holders = try row["target_holders"]
        epochs = try row["target_epochs"]
    }

    var isEmpty: Bool { (installations ?? []).allSatisfy { $0 == nil } && (tokens ?? []).allSatisfy { $0 == nil } }

    func without(_ ended: [PushID: [ErasureStore.Ended]]) -> TargetList {
        var list = self
        for (place, holder) in (installations ?? holders ?? []).enumerated() {
            guard let holder, let epochs, place < epochs.count, let epoch = epochs[place],
                ended[holder]?.contains(where: { ($0.epochsFrom..<$0.epochsBelow).contains(epoch) }) == true
            else { continue }
            list.installations?[place] = nil
            list.tokens?[place] = nil
            list.holders?[place] = nil
            list.epochs?[place] = nil
        }
        return list
    }

    var update: PostgresQuery {
        """
        UPDATE notifications SET target_installations = \(installations), target_tokens = \(tokens), target_holders = \(holders),
            target_epochs = \(epochs)
        WHERE id = \(id)
        """
    }
}
