import Postgres
import PushModel
import TokenServiceApps

/// The limits are written out in the SQL: a planner that does not know the limit prefers to sort the whole app.
extension NotificationReading {
    /// Rows are compared as a whole: with single columns the planner takes the primary key, which goes through the rows of every app. Both
    /// limits have the index's order, so that PostgreSQL stops when the page is full. In another one it sorts up to 5,000 rows first.
    func scan(of list: NotificationList, before: PushID, limit: Int) -> PostgresQuery {
        """
        SELECT * FROM (
            SELECT n.*, (sum(n.bytes) OVER (ORDER BY listed.id DESC ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING))::bigint AS before,
                count(*) OVER () AS found
            FROM (
                SELECT id FROM (
                    SELECT app_id, id, state FROM notifications
                    WHERE (app_id, id) < (\(app.id), \(before)) AND (app_id, id) >= (\(app.id), \(list.lowest))
                    ORDER BY app_id DESC, id DESC LIMIT 5000
                ) AS scanned WHERE \(list.state)::text IS NULL OR state = \(list.state)
                ORDER BY app_id DESC, id DESC LIMIT \(limit)
            ) AS listed JOIN notification_summaries n ON n.id = listed.id
        ) AS measured
        WHERE coalesce(before, 0) < \(PageBytes.maximum) ORDER BY id DESC
        """
    }

    /// The last one that a scan read; no row if it came to the end.
    func scanEnd(before: PushID, lowest: PushID) -> PostgresQuery {
        """
        SELECT id FROM notifications WHERE (app_id, id) < (\(app.id), \(before)) AND (app_id, id) >= (\(app.id), \(lowest))
        ORDER BY app_id DESC, id DESC OFFSET 4999 LIMIT 1
        """
    }

    func named(_ user: String, before: PushID, lowest: PushID) -> PostgresQuery {
        """
        SELECT id FROM notifications WHERE app_id = \(app.id) AND target_user = \(user) AND id < \(before) AND id >= \(lowest)
        ORDER BY id DESC LIMIT 1000
        """
    }

    func listed(_ user: String, before: PushID, lowest: PushID) -> PostgresQuery {
        """
        SELECT notification AS id FROM targets
        WHERE app_id = \(app.id) AND owner = \(user) AND notification < \(before) AND notification >= \(lowest)
        ORDER BY notification DESC LIMIT 1000
        """
    }

    /// For each time that the user was signed in at an installation, as the registry and its history record it: the notifications with a
    /// receipt of the installation, and those addressed to it. Of a user with very many installations the first thousand count.
    func reached(_ user: String, before: PushID, lowest: PushID) -> PostgresQuery {
        """
        WITH signed_in AS MATERIALIZED (
            (SELECT id AS installation, owner_epoch FROM installations WHERE app_id = \(app.id) AND owner = \(user) ORDER BY id LIMIT 1000)
            UNION
            SELECT installation, owner_epoch FROM (
                SELECT installation, owner_epoch FROM installation_history WHERE app_id = \(app.id) AND owner = \(user)
                ORDER BY id DESC LIMIT 1000
            ) AS h WHERE owner_epoch IS NOT NULL
        )
        SELECT DISTINCT found.id FROM signed_in s
        CROSS JOIN LATERAL (
            (
                SELECT notification AS id FROM receipts
                WHERE installation = s.installation AND owner_epoch = s.owner_epoch AND notification < \(before)
                    AND notification >= \(lowest)
                ORDER BY notification DESC LIMIT 1000
            ) UNION ALL (
                SELECT id FROM notifications
                WHERE app_id = \(app.id) AND target_installation = s.installation AND target_epoch = s.owner_epoch
                    AND id < \(before) AND id >= \(lowest)
                ORDER BY id DESC LIMIT 1000
            )
        ) AS found ORDER BY found.id DESC LIMIT 1000
        """
    }

    func summaries(of notifications: [PushID], state: NotificationState?, limit: Int) -> PostgresQuery {
        """
        SELECT * FROM (
            SELECT n.*, (sum(n.bytes) OVER (ORDER BY n.id DESC ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING))::bigint AS before,
                count(*) OVER () AS found
            FROM (
                SELECT n.* FROM unnest(\(notifications)::uuid[]) AS wanted (id) JOIN notification_summaries n ON n.id = wanted.id
                WHERE n.app_id = \(app.id) AND (\(state)::text IS NULL OR n.state = \(state))
                ORDER BY n.id DESC LIMIT \(limit)
            ) AS n
        ) AS measured
        WHERE coalesce(before, 0) < \(PageBytes.maximum) ORDER BY id DESC
        """
    }
}
