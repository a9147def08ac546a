package import Postgres
package import PushModel
import TokenServiceApps

/// The SQL of Live Activities. Their rows are locked before those of jobs and notifications, in ascending order of their keys.
/// A batch may have activities of several apps: each key has its app. ``ActivityReading`` is what a caller sees.
package struct ActivityStore {
    let session: PostgresSession

    package init(session: PostgresSession) { self.session = session }

    /// Locks the activities that exist; missing keys are absent from the result.
    package func lock(_ keys: some Sequence<LiveActivity.Key>) throws -> [LiveActivity.Key: LiveActivity] {
        try lock(Set(keys).sorted())
    }

    /// Locks activities for a transaction that may make the missing ones: it locks their names first, so that no other one makes them.
    package func lockOrReserve(_ keys: some Sequence<LiveActivity.Key>) throws -> [LiveActivity.Key: LiveActivity] {
        let keys = Set(keys).sorted()
        let found = try lock(keys)
        return found.merging(try reserve(keys.filter { found[$0] == nil })) { first, _ in first }
    }

    /// Locks the names of activities that were not found, and those that another transaction has made meanwhile.
    /// - Parameter keys: The activities' keys in ascending order.
    func reserve(_ keys: [LiveActivity.Key]) throws -> [LiveActivity.Key: LiveActivity] {
        guard !keys.isEmpty else { return [:] }
        // The first half of their keys is the word "acti".
        try session.execute(
            """
            SELECT count(pg_advisory_xact_lock(1633907817, place)) FROM (
                SELECT DISTINCT hashtext(concat_ws(' ', app, activity_owner(owner, installation), id)) AS place
                FROM unnest(\(keys.map(\.app))::bigint[], \(keys.map(\.owner.user))::text[], \(keys.map(\.owner.installation))::uuid[],
                        \(keys.map(\.id))::text[])
                    AS e (app, owner, installation, id) ORDER BY place
            ) AS ordered
            """)
        return try lock(keys)
    }

    private func lock(_ keys: [LiveActivity.Key]) throws -> [LiveActivity.Key: LiveActivity] {
        guard !keys.isEmpty else { return [:] }
        let rows = try session.execute(
            """
            SELECT a.*
            FROM unnest(\(keys.map(\.app))::bigint[], \(keys.map(\.owner.user))::text[], \(keys.map(\.owner.installation))::uuid[],
                    \(keys.map(\.id))::text[])
                AS e (app_id, owner, installation, id)
            JOIN activities a ON a.app_id = e.app_id AND a.owned_by = activity_owner(e.owner, e.installation) AND a.id = e.id
            ORDER BY a.app_id, a.owned_by, a.id FOR NO KEY UPDATE OF a
            """)
        return try Self.byKey(rows)
    }

    /// What a request says of an activity.
    struct Reported {
        var installation: InstallationKey
        var purpose: Purpose
        var id: String
        /// The update token that a registration lists; nil for a report of the activity itself.
        var listed: DeviceToken?
    }

    /// Locks those of these that belong to the installations' present owners. It leaves a listed token out that is active at its
    /// installation: the registration says nothing new of the activity, and waits for no lock of it.
    func lockReported(_ reports: [Reported]) throws -> [LiveActivity.Key: LiveActivity] {
        guard !reports.isEmpty else { return [:] }
        let tokens: [[UInt8]?] = reports.map { $0.listed?.bytes }
        let rows = try session.execute(
            """
            SELECT a.* FROM (
                SELECT e.app_id, activity_owner(i.owner, i.id) AS owned_by, e.id
                FROM unnest(\(reports.map(\.installation.app))::bigint[], \(reports.map(\.installation.id))::uuid[],
                        \(reports.map(\.purpose.rawValue))::text[], \(reports.map(\.id))::text[], \(tokens)::bytea[])
                    AS e (app_id, installation, purpose, id, token)
                JOIN installations i ON i.app_id = e.app_id AND i.id = e.installation
                LEFT JOIN LATERAL (
                    SELECT t.id FROM tokens t WHERE t.app_id = i.app_id AND t.ordinal = i.ordinal AND t.purpose = e.purpose
                        AND t.token = e.token AND t.state = 'active' LIMIT 1
                ) AS known ON true
                WHERE known.id IS NULL ORDER BY 1, 2, 3
            ) AS o JOIN activities a ON a.app_id = o.app_id AND a.owned_by = o.owned_by AND a.id = o.id
            ORDER BY a.app_id, a.owned_by, a.id FOR NO KEY UPDATE OF a
            """)
        return try Self.byKey(rows)
    }

    private static func byKey(_ rows: PostgresRows) throws -> [LiveActivity.Key: LiveActivity] {
        var activities: [LiveActivity.Key: LiveActivity] = [:]
        for row in rows {
            let activity = try LiveActivity(row)
            activities[activity.key] = activity
        }
        return activities
    }

    /// Who is signed in on these installations.
    package func users(of installations: [InstallationKey]) throws -> [InstallationKey: String] {
        guard !installations.isEmpty else { return [:] }
        let rows = try session.execute(
            """
            SELECT i.app_id, i.id, i.owner
            FROM unnest(\(installations.map(\.app))::bigint[], \(installations.map(\.id))::uuid[]) AS e (app_id, id)
            JOIN installations i ON i.app_id = e.app_id AND i.id = e.id WHERE i.owner IS NOT NULL
            """)
        var users: [InstallationKey: String] = [:]
        for row in rows { users[InstallationKey(app: try row["app_id"], id: try row["id"])] = try row["owner"] }
        return users
    }

    /// Writes rows that are locked or new. A notification that is over, such as one that found no device, is not ``LiveActivity/sending``.
    /// Between two pages of a fan-out it may have no pending delivery, and is not over.
    /// - Parameter rows: The activities in ascending order of key.
    package static func save(_ rows: [LiveActivity]) -> [PostgresQuery] {
        guard !rows.isEmpty else { return [] }
        return [
            """
            INSERT INTO activities AS a (app_id, id, owner, installation, attributes_type, is_started_for_user, started_at, reported_at,
                has_frequent_updates, ended_at, stale_at, dismissed_at, newest, newest_timestamp, is_waiting, sending, is_retrying, free_at)
            SELECT app_id, id, owner, installation, attributes_type, is_started_for_user, started_at, reported_at, has_frequent_updates,
                ended_at, stale_at, dismissed_at, newest, newest_timestamp, is_waiting,
                CASE WHEN (SELECT n.completed_at IS NULL FROM notifications n WHERE n.id = e.sending) THEN sending END, is_retrying, free_at
            FROM unnest(\(rows.map(\.key.app))::bigint[], \(rows.map(\.key.id))::text[], \(rows.map(\.key.owner.user))::text[],
                    \(rows.map(\.key.owner.installation))::uuid[], \(rows.map(\.attributesType))::text[],
                    \(rows.map(\.isStartedForUser))::bool[], \(milliseconds: rows.map(\.startedAt))::timestamptz[],
                    \(milliseconds: rows.map(\.reportedAt))::timestamptz[],
                    \(rows.map(\.hasFrequentUpdates))::bool[], \(milliseconds: rows.map(\.endedAt))::timestamptz[],
                    \(milliseconds: rows.map(\.staleAt))::timestamptz[], \(milliseconds: rows.map(\.dismissedAt))::timestamptz[],
                    \(rows.map(\.queue.newest))::uuid[], \(rows.map(\.queue.newestTimestamp))::bigint[],
                    \(rows.map(\.queue.isWaiting))::bool[], \(rows.map(\.queue.sending))::uuid[],
                    \(rows.map(\.queue.isRetrying))::bool[], \(milliseconds: rows.map(\.queue.freeAt))::timestamptz[])
                AS e (app_id, id, owner, installation, attributes_type, is_started_for_user, started_at, reported_at, has_frequent_updates,
                    ended_at, stale_at, dismissed_at, newest, newest_timestamp, is_waiting, sending, is_retrying, free_at)
            ON CONFLICT (app_id, owned_by, id) DO UPDATE SET attributes_type = excluded.attributes_type,
                is_started_for_user = excluded.is_started_for_user,
                started_at = excluded.started_at, reported_at = excluded.reported_at,
                has_frequent_updates = excluded.has_frequent_updates, ended_at = excluded.ended_at, stale_at = excluded.stale_at,
                dismissed_at = excluded.dismissed_at, newest = excluded.newest, newest_timestamp = excluded.newest_timestamp,
                is_waiting = excluded.is_waiting, sending = excluded.sending, is_retrying = excluded.is_retrying, free_at = excluded.free_at
            """
        ]
    }

    /// Removes activities whose start reaches no device. An activity follows the channel that its start names, or none; the row lock keeps
    /// a request from deleting the channel meanwhile.
    package static func removeUnreached(_ starts: [LiveActivity.Key: (notification: PushID, channelID: String?)]) -> [PostgresQuery] {
        guard !starts.isEmpty else { return [] }
        let starts = starts.sorted { $0.key < $1.key }
        let (apps, users) = (starts.map(\.key.app), starts.map(\.key.owner.user))
        let (installations, ids) = (starts.map(\.key.owner.installation), starts.map(\.key.id))
        return [
            """
            DELETE FROM activities a USING unnest(\(apps)::bigint[], \(users)::text[], \(installations)::uuid[], \(ids)::text[],
                    \(starts.map(\.value.notification))::uuid[])
                AS e (app_id, owner, installation, id, start)
            WHERE a.app_id = e.app_id AND a.owned_by = activity_owner(e.owner, e.installation) AND a.id = e.id
                AND EXISTS (SELECT FROM notifications n WHERE n.id = e.start AND n.state = 'no_targets')
            """,
            """
            WITH followed AS (
                SELECT e.app_id, activity_owner(e.owner, e.installation) AS owned_by, e.id, c.id AS channel
                FROM unnest(\(apps)::bigint[], \(users)::text[], \(installations)::uuid[], \(ids)::text[],
                        \(starts.map(\.value.channelID))::text[])
                    AS e (app_id, owner, installation, id, apple_id)
                JOIN channels c ON c.app_id = e.app_id AND c.apple_id = e.apple_id AND c.state = 'open' FOR KEY SHARE OF c
            )
            UPDATE activities a SET channel = f.channel
            FROM unnest(\(apps)::bigint[], \(users)::text[], \(installations)::uuid[], \(ids)::text[])
                AS e (app_id, owner, installation, id)
            LEFT JOIN followed f ON f.app_id = e.app_id AND f.owned_by = activity_owner(e.owner, e.installation) AND f.id = e.id
            WHERE a.app_id = e.app_id AND a.owned_by = activity_owner(e.owner, e.installation) AND a.id = e.id
                AND a.channel IS DISTINCT FROM f.channel
            """,
        ]
    }

    /// These notifications may go now; fan-out asks for their turns.
    package static func release(_ notifications: [PushID]) -> [PostgresQuery] {
        guard !notifications.isEmpty else { return [] }
        return [
            """
            WITH locked AS (
                SELECT f.notification FROM unnest(\(notifications)::uuid[]) AS e (id) JOIN fan_outs f ON f.notification = e.id
                WHERE f.free_from > now() ORDER BY f.notification FOR NO KEY UPDATE OF f
            )
            UPDATE fan_outs f SET free_from = now(), due_at = now() FROM locked l WHERE f.notification = l.notification
            """
        ]
    }

    /// Makes notifications with the content, the addressee and the expiry of others. Fan-out asks for their turns.
    static func copy(_ copies: [(original: PushID, copy: PushID)]) -> [PostgresQuery] {
        guard !copies.isEmpty else { return [] }
        return [
            """
            WITH item AS (
                SELECT e.id AS copy, n.*
                FROM unnest(\(copies.map(\.original))::uuid[], \(copies.map(\.copy))::uuid[]) AS e (original, id)
                JOIN notifications n ON n.id = e.original
            ), variants AS (
                INSERT INTO notification_variants (notification, locale, payload)
                SELECT item.copy, v.locale, v.payload FROM item JOIN notification_variants v ON v.notification = item.id
            ), left_to_fan_out AS (
                INSERT INTO fan_outs (notification, app_id, lane, target, entries, due_at, free_from)
                SELECT copy, app_id, lane, CASE WHEN target_user IS NULL THEN 'installation' ELSE 'user' END, 1, now(), now() FROM item
            )
            INSERT INTO notifications (id, app_id, target_user, target_installation, target_epoch, lane, push_type, purpose, topic,
                priority,
                collapse_id, apns_expiration, on_unknown, payload, traceparent, receipts, is_urgent, accepted_at, expires_at, copy_of,
                    state,
                total, pending, is_reported)
            SELECT copy, app_id, target_user, target_installation, target_epoch, lane, push_type, purpose, topic, priority, collapse_id,
                apns_expiration, on_unknown, payload, traceparent, receipts, is_urgent, now(), expires_at, coalesce(copy_of, id),
                'accepted', 0, 0, is_reported
            FROM item
            """
        ]
    }
}

extension LiveActivity {
    /// - Parameter row: A row of `activities`.
    package init(_ row: PostgresRow) throws {
        guard let owner = Owner(user: try row["owner"], orInstallation: try row["installation"]) else {
            throw CorruptRow(table: "activities")
        }
        self.init(
            key: Key(app: try row["app_id"], owner: owner, id: try row["id"]), attributesType: try row["attributes_type"],
            startedAt: try row.milliseconds("started_at"))
        isStartedForUser = try row["is_started_for_user"]
        reportedAt = try row.milliseconds("reported_at")
        hasFrequentUpdates = try row["has_frequent_updates"]
        endedAt = try row.milliseconds("ended_at")
        staleAt = try row.milliseconds("stale_at")
        dismissedAt = try row.milliseconds("dismissed_at")
        queue = try UpdateQueue(row)
    }
}

extension UpdateQueue {
    /// - Parameter row: A row of `activities` or `channels`.
    package init(_ row: PostgresRow) throws {
        self.init()
        newest = try row["newest"]
        newestTimestamp = try row["newest_timestamp"]
        isWaiting = try row["is_waiting"]
        sending = try row["sending"]
        isRetrying = try row["is_retrying"]
        freeAt = try row.milliseconds("free_at")
    }
}

extension LiveActivity.Owner {
    package var user: String? { if case .user(let name) = self { name } else { nil } }
    package var installation: PushID? { if case .installation(let id) = self { id } else { nil } }

    /// - Parameter user: Who is signed in on the installation.
    package init(user: String?, installation: PushID) { self = user.map { .user($0) } ?? .installation(installation) }

    /// Makes the owner; nil if neither is named.
    package init?(user: String?, orInstallation installation: PushID?) {
        guard let owner = user.map({ Self.user($0) }) ?? installation.map({ .installation($0) }) else { return nil }
        self = owner
    }
}
