import Postgres
import PushModel
import TokenServiceApps
import TokenServiceSending

extension ExplanationStore {
    func row(of notification: PushID, user: String) -> PostgresQuery {
        """
        SELECT *, EXISTS (
            SELECT FROM addressees WHERE app_id = \(app.id) AND notification = \(notification) AND owner = \(user)) AS names_user
        FROM notification_records WHERE app_id = \(app.id) AND id = \(notification)
        """
    }

    /// The moments at which the history names the user, as a beginning or an end. A line of history names the user who was signed in before
    /// or after it.
    func stays(of user: String) -> PostgresQuery {
        """
        SELECT installation, owner_epoch, min(at) FILTER (WHERE event IN ('registered', 'signed_in')) AS began_at,
            max(at) FILTER (WHERE event IN ('signed_out', 'deregistered')) AS ended_at
        FROM (
            SELECT installation, owner_epoch, at, event FROM installation_history WHERE app_id = \(app.id) AND owner = \(user)
            ORDER BY id DESC LIMIT 1000
        ) AS newest WHERE owner_epoch IS NOT NULL GROUP BY installation, owner_epoch
        """
    }

    func current(_ user: String) -> PostgresQuery {
        "SELECT id, owner_epoch FROM installations WHERE app_id = \(app.id) AND owner = \(user) ORDER BY id LIMIT 101"
    }

    /// Those in force are few (``HoldStore/maximumPerApp``), and have an index of their own.
    func holds(on notification: PushID) -> PostgresQuery {
        """
        SELECT h.id, a.slug AS app, h.lane, h.notification, h.reason, h.set_at, nullif(h.ends_at, 'infinity') AS ends_at
        FROM notifications n JOIN holds h ON h.lifted_at IS NULL AND h.ends_at > now() AND (h.app_id IS NULL OR h.app_id = n.app_id)
            AND (h.lane IS NULL OR h.lane = n.lane) AND (h.notification IS NULL OR h.notification IN (n.id, n.copy_of))
        LEFT JOIN apps a ON a.id = h.app_id
        WHERE n.app_id = \(app.id) AND n.id = \(notification) ORDER BY h.ends_at DESC, h.id LIMIT 10
        """
    }

    func states(of installations: [PushID], for notification: PushID) -> PostgresQuery {
        """
        SELECT i.id, i.signed_out_reason, i.deregistered_at, i.permission,
            CASE WHEN i.throttled_until > now() THEN i.throttled_until END AS throttled_until,
            x.installation IS NOT NULL AS is_named, x.owner_epoch AS named_epoch,
            audience_words(i.tags, i.permission) @@ f.query AS matches_tags,
            EXISTS (
                SELECT FROM unnest(ARRAY['not_determined', 'provisional', 'denied', 'authorized', 'ephemeral', 'unknown']) AS other (permission)
                WHERE audience_words(i.tags, other.permission) @@ f.query) AS matches_with_another_permission,
            f.local_time AT TIME ZONE coalesce(z.name, 'UTC') AS local_due_at,
            coalesce(i.ordinal > f.checkpoint, false) AS is_ahead
        FROM unnest(\(installations)::uuid[]) AS wanted (id)
        CROSS JOIN LATERAL (SELECT * FROM installations WHERE app_id = \(app.id) AND id = wanted.id LIMIT 1) AS i
        LEFT JOIN fan_outs f ON f.app_id = \(app.id) AND f.notification = \(notification)
        LEFT JOIN time_zones z ON z.name = i.time_zone
        LEFT JOIN LATERAL (
            SELECT * FROM addressees WHERE app_id = \(app.id) AND notification = \(notification) AND installation = i.id ORDER BY place LIMIT 1
        ) AS x ON true
        """
    }

    func tokens(of installations: [PushID], for purpose: Purpose) -> PostgresQuery {
        """
        SELECT * FROM tokens
        WHERE app_id = \(app.id) AND installation = ANY (\(installations))
            AND (purpose = \(purpose) OR purpose LIKE 'activity:%' AND \(purpose) LIKE 'channel:%') IS TRUE ORDER BY id
        """
    }

    /// By updated_at, which no index has: for any other order PostgreSQL may read all of the notification's receipts.
    func receipts(of installations: [PushID], for notification: PushID) -> PostgresQuery {
        """
        SELECT r.*, t.token, j.due_at, j.published_at
        FROM unnest(\(installations)::uuid[]) AS wanted (id)
        CROSS JOIN LATERAL (
            SELECT * FROM reported_receipts WHERE installation = wanted.id AND notification = (SELECT id FROM notifications WHERE app_id = \(app.id) AND id = \(notification))
            ORDER BY updated_at
        ) AS r
        LEFT JOIN tokens t ON t.id = r.token_id LEFT JOIN jobs j ON j.notification = r.notification AND j.number = r.number
        ORDER BY r.number, r."position"
        """
    }

    func fences(of installations: [PushID], since moment: Int64) -> PostgresQuery {
        """
        SELECT f.installation, f.epochs_below, f.created_at, f.published_at FROM unnest(\(installations)::uuid[]) AS wanted (id)
        CROSS JOIN LATERAL (
            SELECT * FROM fences WHERE app_id = \(app.id) AND installation = wanted.id AND created_at >= \(milliseconds: moment) ORDER BY id
        ) AS f ORDER BY f.id LIMIT 500
        """
    }

    func history(of installations: [PushID], since moment: Int64) -> PostgresQuery {
        """
        SELECT h.* FROM unnest(\(installations)::uuid[]) AS wanted (id)
        CROSS JOIN LATERAL (
            SELECT * FROM installation_history
            WHERE app_id = \(app.id) AND installation = wanted.id AND at >= \(milliseconds: moment) ORDER BY id
        ) AS h ORDER BY h.id LIMIT 500
        """
    }

    /// A doubt lasts for a day after its line, and until the next sweep.
    func doubts(of installations: [PushID], for purpose: Purpose, until moment: Int64) -> PostgresQuery {
        """
        SELECT h.* FROM unnest(\(installations)::uuid[]) AS wanted (id)
        CROSS JOIN LATERAL (
            SELECT * FROM installation_history
            WHERE app_id = \(app.id) AND installation = wanted.id AND event = 'token_doubtful' AND purpose = \(purpose)
                AND at > \(milliseconds: moment) - interval '2 days' AND at <= \(milliseconds: moment)
            ORDER BY id DESC LIMIT 10
        ) AS h
        """
    }

    /// Of these members, those that have no receipt.
    func members(_ members: [MemberSearch.Found], of notification: PushID) -> PostgresQuery {
        """
        SELECT delivery_id(j.notification, j.number, p."position"::integer) AS id, p.token_id,
            get_bit(j.settled, p."position"::integer) = 1 AS is_settled, j.due_at, j.published_at, t.token, t.environment
        FROM unnest(\(members.map(\.place.job))::bigint[], \(members.map(\.place.position))::bigint[], \(members.map(\.token))::bigint[])
            AS p (number, "position", token_id)
        CROSS JOIN LATERAL (
            SELECT *, p.token_id FROM jobs WHERE app_id = \(app.id) AND notification = \(notification) AND number = p.number LIMIT 1
        ) AS j
        JOIN tokens t ON t.id = j.token_id
        WHERE (
            SELECT count(*) = 0 FROM receipts r
            WHERE r.notification = j.notification AND r.number = j.number AND r."position" = p."position")
        ORDER BY p.number, p."position"
        """
    }

    /// A row if the notification has more jobs than the explanation reads.
    func jobHorizon(of notification: PushID) -> PostgresQuery {
        "SELECT number FROM jobs WHERE app_id = \(app.id) AND notification = \(notification) ORDER BY number OFFSET 20000 LIMIT 1"
    }
}
