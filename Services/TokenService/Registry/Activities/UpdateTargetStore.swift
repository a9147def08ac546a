package import Postgres
package import PushModel
import TokenServiceApps

/// The SQL of Live Activities and channels as updates see them. Their rows are locked before those of jobs and notifications, and of
/// `channels`, in ascending order of their keys. A batch may have those of several apps: each key has its app. ``ActivityReading`` is what
/// a caller sees. The registry of channels makes a channel's row with the channel; housekeeping removes it later than the channel.
package struct UpdateTargetStore {
    package let session: PostgresSession

    package init(session: PostgresSession) { self.session = session }

    /// Locks the rows that exist; missing keys are absent from the result.
    package func lock(_ keys: some Sequence<UpdateTarget.Key>) throws -> [UpdateTarget.Key: UpdateTarget] {
        try lock(Set(keys).sorted())
    }

    /// Locks the rows to decide whose turn it is. A notification that has expired, or that a caller cancelled between two pages of its
    /// fan-out, has no outcome to come for which another one waits: it is not ``UpdateQueue/sending`` any more.
    /// - Parameter mayMakeActivities: The transaction may make those that do not exist.
    package func lockForTurns(
        _ keys: some Sequence<UpdateTarget.Key>, mayMakeActivities: Bool = false
    ) throws -> [UpdateTarget.Key: UpdateTarget] {
        var targets = try mayMakeActivities ? lockOrReserve(keys) : lock(keys)
        let sending = targets.values.compactMap(\.queue.sending)
        guard !sending.isEmpty else { return targets }
        // A statement of its own: one that waited for a lock sees the notifications as they were before.
        let open: [PushID] = try session.execute(
            "SELECT id FROM notifications WHERE id = ANY (\(sending)) AND completed_at IS NULL AND expires_at > now()"
        ).column("id")
        for (key, target) in targets {
            if let sending = target.queue.sending, !open.contains(sending) { targets[key]?.queue.sending = nil }
        }
        return targets
    }

    /// Locks rows for a transaction that may make the missing activities: it locks their names first, so that no other one makes them.
    private func lockOrReserve(_ keys: some Sequence<UpdateTarget.Key>) throws -> [UpdateTarget.Key: UpdateTarget] {
        let keys = Set(keys).sorted()
        let found = try lock(keys)
        return found.merging(try reserve(keys.filter { found[$0] == nil })) { first, _ in first }
    }

    /// Locks the names of activities that were not found, and those that another transaction has made meanwhile.
    /// - Parameter keys: The activities' keys in ascending order.
    func reserve(_ keys: [UpdateTarget.Key]) throws -> [UpdateTarget.Key: UpdateTarget] {
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

    private func lock(_ keys: [UpdateTarget.Key]) throws -> [UpdateTarget.Key: UpdateTarget] {
        guard !keys.isEmpty else { return [:] }
        let rows = try session.execute(
            """
            SELECT a.*
            FROM unnest(\(keys.map(\.app))::bigint[], \(keys.map(\.owner.user))::text[], \(keys.map(\.owner.installation))::uuid[],
                    \(keys.map(\.id))::text[])
                AS e (app_id, owner, installation, id)
            JOIN update_targets a ON a.app_id = e.app_id AND a.owned_by = activity_owner(e.owner, e.installation) AND a.id = e.id
            ORDER BY a.app_id, a.owned_by, a.id FOR NO KEY UPDATE OF a
            """)
        return try byKey(rows)
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
    func lockReported(_ reports: [Reported]) throws -> [UpdateTarget.Key: UpdateTarget] {
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
        return try byKey(rows)
    }

    private func byKey(_ rows: PostgresRows) throws -> [UpdateTarget.Key: UpdateTarget] {
        var targets: [UpdateTarget.Key: UpdateTarget] = [:]
        for row in rows {
            let target = try UpdateTarget(row)
            targets[target.key] = target
        }
        let ends = try channelEnds(of: targets.values.filter { $0.endedAt == nil })
        guard !ends.isEmpty else { return targets }
        return targets.mapValues { target in
            var target = target
            target.channelEndedAt = target.channel.flatMap { ends[$0] }
            return target
        }
    }

    /// When the last end was sent of each channel that these activities follow, also if it was deleted since. A statement of its own: one
    /// that waited for a lock sees the channels as they were before.
    private func channelEnds(of activities: [UpdateTarget]) throws -> [Int64: Int64] {
        var apps: [Int64: App.ID] = [:]
        for activity in activities { if let channel = activity.channel { apps[channel] = activity.key.app } }
        guard !apps.isEmpty else { return [:] }
        let channels = apps.sorted { $0.key < $1.key }
        let rows = try session.execute(
            """
            SELECT q.ordinal, q.ended_at
            FROM unnest(\(channels.map(\.value))::bigint[], \(channels.map(\.key))::bigint[]) AS e (app_id, channel)
            JOIN update_targets q ON q.app_id = e.app_id AND q.ordinal = e.channel
            WHERE q.started_at IS NULL AND q.ended_at IS NOT NULL
            """)
        var ends: [Int64: Int64] = [:]
        for row in rows { ends[try row["ordinal"]] = try row.milliseconds("ended_at") }
        return ends
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

    /// Writes rows that are locked or new. A notification that is over, such as one that found no device, is not ``UpdateQueue/sending``.
    /// Between two pages of a fan-out it may have no pending delivery, and is not over.
    /// - Parameter rows: The rows in ascending order of key.
    package static func save(_ rows: [UpdateTarget]) -> [PostgresQuery] {
        guard !rows.isEmpty else { return [] }
        return [
            """
            INSERT INTO update_targets (app_id, id, owner, installation, attributes_type, is_started_for_user, started_at, reported_at,
                has_frequent_updates, ended_at, stale_at, dismissed_at, newest, newest_timestamp, is_waiting, sending, is_retrying, free_at,
                is_end, is_sending_end, unconfirmed_end, ended_before, starts_until)
            SELECT app_id, id, owner, installation, attributes_type, is_started_for_user, started_at, reported_at, has_frequent_updates,
                ended_at, stale_at, dismissed_at, newest, newest_timestamp, is_waiting,
                CASE WHEN (SELECT n.completed_at IS NULL FROM notifications n WHERE n.id = e.sending) THEN sending END,
                is_retrying, free_at, is_end, is_sending_end, unconfirmed_end, ended_before, starts_until
            FROM unnest(\(rows.map(\.key.app))::bigint[], \(rows.map(\.key.id))::text[], \(rows.map(\.key.owner.user))::text[],
                    \(rows.map(\.key.owner.installation))::uuid[], \(rows.map(\.attributesType))::text[],
                    \(rows.map(\.isStartedForUser))::bool[], \(milliseconds: rows.map(\.startedAt))::timestamptz[],
                    \(milliseconds: rows.map(\.reportedAt))::timestamptz[],
                    \(rows.map(\.hasFrequentUpdates))::bool[], \(milliseconds: rows.map(\.endedAt))::timestamptz[],
                    \(milliseconds: rows.map(\.staleAt))::timestamptz[], \(milliseconds: rows.map(\.dismissedAt))::timestamptz[],
                    \(rows.map(\.queue.newest))::uuid[], \(rows.map(\.queue.newestTimestamp))::bigint[],
                    \(rows.map(\.queue.isWaiting))::bool[], \(rows.map(\.queue.sending))::uuid[],
                    \(rows.map(\.queue.isRetrying))::bool[], \(milliseconds: rows.map(\.queue.freeAt))::timestamptz[],
                    \(rows.map(\.isEnd))::bool[], \(rows.map(\.isSendingEnd))::bool[], \(rows.map(\.unconfirmedEnd))::uuid[],
                    \(milliseconds: rows.map(\.endedBefore))::timestamptz[], \(milliseconds: rows.map(\.startsUntil))::timestamptz[])
                AS e (app_id, id, owner, installation, attributes_type, is_started_for_user, started_at, reported_at, has_frequent_updates,
                    ended_at, stale_at, dismissed_at, newest, newest_timestamp, is_waiting, sending, is_retrying, free_at, is_end,
                    is_sending_end, unconfirmed_end, ended_before, starts_until)
            ON CONFLICT (app_id, owned_by, id) DO UPDATE SET attributes_type = excluded.attributes_type,
                is_started_for_user = excluded.is_started_for_user,
                started_at = excluded.started_at, reported_at = excluded.reported_at,
                has_frequent_updates = excluded.has_frequent_updates, ended_at = excluded.ended_at, stale_at = excluded.stale_at,
                dismissed_at = excluded.dismissed_at, newest = excluded.newest, newest_timestamp = excluded.newest_timestamp,
                is_waiting = excluded.is_waiting, sending = excluded.sending, is_retrying = excluded.is_retrying,
                free_at = excluded.free_at, is_end = excluded.is_end, is_sending_end = excluded.is_sending_end,
                unconfirmed_end = excluded.unconfirmed_end, ended_before = excluded.ended_before, starts_until = excluded.starts_until
            """
        ]
    }

    /// Removes activities whose start reaches no device. An activity follows the channel that its start names, or none; the row lock keeps
    /// a request from deleting the channel meanwhile.
    package static func removeUnreached(_ starts: [UpdateTarget.Key: (notification: PushID, channelID: String?)]) -> [PostgresQuery] {
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
                SELECT e.app_id, activity_owner(e.owner, e.installation) AS owned_by, e.id, q.ordinal AS channel
                FROM unnest(\(apps)::bigint[], \(users)::text[], \(installations)::uuid[], \(ids)::text[],
                        \(starts.map(\.value.channelID))::text[])
                    AS e (app_id, owner, installation, id, apple_id)
                JOIN channels c ON c.app_id = e.app_id AND c.apple_id = e.apple_id AND c.state = 'open'
                JOIN update_targets q ON q.app_id = c.app_id AND q.owned_by = 'channel' AND q.id = c.name FOR KEY SHARE OF c
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

    /// Fan-out takes the notification up again then, or when it expires; it is not due before.
    package static func putBack(_ notification: PushID, until moment: Int64) -> PostgresQuery {
        """
        UPDATE fan_outs f SET free_from = greatest(now(), least(n.expires_at, \(milliseconds: moment))),
            due_at = greatest(now(), least(n.expires_at, \(milliseconds: moment)))
        FROM notifications n
        WHERE f.notification = \(notification) AND n.id = f.notification AND f.free_from IS NOT NULL
        """
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

extension UpdateTarget {
    /// - Parameter row: A row of `update_targets`.
    package init(_ row: PostgresRow) throws {
        let owner = Owner(user: try row["owner"], orInstallation: try row["installation"]) ?? .channel
        self.init(
            key: Key(app: try row["app_id"], owner: owner, id: try row["id"]), attributesType: try row["attributes_type"],
            startedAt: try row.milliseconds("started_at"), channel: try row["channel"])
        isStartedForUser = try row["is_started_for_user"]
        startsUntil = try row.milliseconds("starts_until")
        reportedAt = try row.milliseconds("reported_at")
        hasFrequentUpdates = try row["has_frequent_updates"]
        endedAt = try row.milliseconds("ended_at")
        (unconfirmedEnd, endedBefore) = (try row["unconfirmed_end"], try row.milliseconds("ended_before"))
        staleAt = try row.milliseconds("stale_at")
        dismissedAt = try row.milliseconds("dismissed_at")
        queue.newest = try row["newest"]
        queue.newestTimestamp = try row["newest_timestamp"]
        queue.isWaiting = try row["is_waiting"]
        queue.sending = try row["sending"]
        queue.isRetrying = try row["is_retrying"]
        queue.freeAt = try row.milliseconds("free_at")
        isEnd = try row["is_end"]
        isSendingEnd = try row["is_sending_end"]
    }
}

extension UpdateTarget.Key {
    /// Names what a notification updates; nil for a start, and for all that is of no activity.
    /// - Parameter row: A row of `notifications`, with purpose, app_id, target_user and target_installation.
    package init?(_ row: PostgresRow) throws {
        let (purpose, app): (Purpose, App.ID) = (try row["purpose"], try row["app_id"])
        switch purpose {
        case .activity(let id):
            let owner = UpdateTarget.Owner(user: try row["target_user"], orInstallation: try row["target_installation"])
            guard let owner else { return nil }
            self.init(app: app, owner: owner, id: id)
        case .channel(let name): self.init(app: app, owner: .channel, id: name)
        default: return nil
        }
    }
}

extension UpdateTarget.Owner {
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
