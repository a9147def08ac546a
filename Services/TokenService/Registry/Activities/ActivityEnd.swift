import Postgres
import PushModel
import TokenServiceKit

/// Ends Live Activities on single devices, because their user left or another user is signed in there: what they show must disappear.
///
/// An end is a notification to the installation in its present owner epoch, so the fence of the epoch before does not stop it.
enum ActivityEnd {
    /// A device on which activities of one owner end; all of them if no purpose is given.
    struct Place {
        let installation: InstallationKey
        /// The user whose activity it is; nil: of the installation without a user.
        let user: String?
        var purpose: Purpose?
        /// Activities that the device reported afterwards, for the next user. They go on.
        var later: Set<Purpose> = []
    }

    /// Makes the ends, which run after the writes of the registry. An activity that no device of its owner may show any more is over, and
    /// an update of it that waits goes nowhere: a device that reports the activity later gets an end. An end without a content state and
    /// with a dismissal date in the past removes the activity at once, and says nothing about it (Apple, "Starting and updating Live
    /// Activities with ActivityKit push notifications").
    static func insert(_ places: [Place]) -> [PostgresQuery] {
        guard !places.isEmpty else { return [] }
        let (apps, installations) = (places.map(\.installation.app), places.map(\.installation.id))
        let (users, purposes) = (places.map(\.user), places.map { $0.purpose?.rawValue })
        let later = places.flatMap { place in place.later.sorted { $0.rawValue < $1.rawValue }.map { (place.installation, $0.rawValue) } }
        // Another device of the owner may report or leave at this moment. Under the lock, the last statement sees what it did.
        let lock = RowLock(
            """
            SELECT FROM activities_shown_on(\(apps)::bigint[], \(installations)::uuid[], \(users)::text[], \(purposes)::text[]) AS o
            JOIN activities a ON a.app_id = o.app_id AND a.owned_by = o.owned_by AND a.id = o.id
            ORDER BY a.app_id, a.owned_by, a.id FOR NO KEY UPDATE OF a
            """)
        return lock.then(
            """
            WITH ended AS (
                SELECT * FROM unnest(\(apps)::bigint[], \(installations)::uuid[], \(users)::text[], \(purposes)::text[])
                    AS e (app_id, installation, owner, purpose)
            ), over AS (
                SELECT t.id AS token, t.app_id, t.installation, t.environment, t.purpose, i.owner_epoch, p.bundle_id,
                    p.reports_notifications,
                    new_id() AS id, extract(epoch FROM now())::bigint AS second,
                    -- A device ignores a state that is older than its own. A later update may be accepted and arrive at this moment,
                    -- so the end is a minute ahead.
                    greatest(extract(epoch FROM now())::bigint, (
                        SELECT max(a.newest_timestamp) FROM ended o CROSS JOIN LATERAL (
                            SELECT newest_timestamp FROM activities
                            WHERE app_id = o.app_id AND owned_by = activity_owner(o.owner, o.installation) AND id = substr(t.purpose, 10)
                            LIMIT 1
                        ) AS a WHERE o.app_id = t.app_id AND o.installation = t.installation
                    )) + 60 AS timestamp
                -- An installation may have changed its user twice.
                FROM (SELECT DISTINCT app_id, installation, purpose FROM ended) AS e
                JOIN installations i ON i.app_id = e.app_id AND i.id = e.installation JOIN apps p ON p.id = e.app_id
                CROSS JOIN LATERAL (
                    SELECT * FROM tokens WHERE app_id = e.app_id AND installation = e.installation ORDER BY id
                ) AS t
                WHERE (t.state = 'active' AND t.purpose LIKE 'activity:%' AND t.purpose = coalesce(e.purpose, t.purpose)) IS TRUE
                    AND NOT EXISTS (
                        SELECT FROM unnest(\(later.map(\.0.app))::bigint[], \(later.map(\.0.id))::uuid[], \(later.map(\.1))::text[])
                            AS l (app_id, installation, purpose)
                        WHERE l.app_id = t.app_id AND l.installation = t.installation AND l.purpose = t.purpose)
            ), jobs_made AS (
                INSERT INTO jobs (notification, number, app_id, lane, locale, due_at, members, sandbox, free_from)
                SELECT id, 0, app_id, 'now', '', now(), int8send(token),
                    CASE environment WHEN 'sandbox' THEN set_bit(B'0'::bit(100), 0, 1) ELSE B'0'::bit(100) END, now()
                FROM over
            )
            INSERT INTO notifications (id, app_id, target_installation, target_epoch, lane, push_type, purpose, topic, priority,
                apns_expiration, on_unknown, payload, traceparent, is_urgent, accepted_at, expires_at, state, total, pending, jobs,
                    is_reported)
            SELECT id, app_id, installation, owner_epoch, 'now', 'liveactivity', purpose, bundle_id || '.push-type.liveactivity', 10,
                second + 43200, 'resend',
                convert_to(json_build_object('aps', json_build_object(
                    'timestamp', timestamp, 'event', 'end', 'dismissal-date', second - 1))::text, 'UTF8'),
                format('00-%s-%s-00', replace(gen_random_uuid()::text, '-', ''), left(md5(random()::text), 16)), true, now(),
                now() + interval '12 hours', 'sending', 1, 1, 1, reports_notifications
            FROM over
            """,
            """
            UPDATE activities a SET ended_at = now(), newest = CASE WHEN NOT a.is_waiting THEN a.newest END, is_waiting = false
            FROM activities_shown_on(\(apps)::bigint[], \(installations)::uuid[], \(users)::text[], \(purposes)::text[]) AS o
            WHERE a.app_id = o.app_id AND a.owned_by = o.owned_by AND a.id = o.id AND (a.ended_at IS NULL AND NOT may_be_shown(a)) IS TRUE
            """)
    }
}
