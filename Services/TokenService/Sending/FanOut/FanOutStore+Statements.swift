import Postgres
import PushModel

/// The devices that a notification means. A target that names installations or tokens means them as they were when it was accepted: with
/// the same owner, and tokens at the same installation.
extension FanOutStore {
    static func select(_ notification: PushID) -> PostgresQuery {
        """
        SELECT n.app_id, n.purpose, n.target_user, n.target_installation, f.lifetime_ms, cardinality(a.environments) > 1 AS may_try,
            f.checkpoint, f.checkpoint_installation, n.jobs, f.entries, CASE WHEN NOT f.are_tags_common THEN f.tags END AS tags,
            f.target = 'all' AS is_everybody, f.target = 'channel_and_activities' AS includes_activities, a.activity_window_seconds,
            greatest(n.accepted_at, f.due_at) - interval '10 seconds' AS began_at
        FROM fan_outs f JOIN notifications n ON n.id = f.notification JOIN apps a ON a.id = n.app_id
        WHERE f.notification = \(notification) AND f.ended_at IS NULL AND n.state <> 'cancelled'
        """
    }

    /// The end of a page of an app's installations.
    static func pageEnd(of fanOut: PendingFanOut, installations: Int) -> PostgresQuery {
        """
        SELECT ordinal, count(*) OVER () AS read FROM (
            SELECT ordinal FROM installations WHERE app_id = \(fanOut.app) AND ordinal > \(fanOut.checkpoint.position)
            ORDER BY ordinal LIMIT \(installations)
        ) AS page ORDER BY ordinal DESC LIMIT 1
        """
    }

    // The columns of all pages are those of ``PendingFanOut/Found``. `due` is NULL where a delivery is due now; it lies in the past where
    // fan-out is late. `has_moved`: the token has moved between installations since fan-out may have begun, so that it may be in a job
    // already; few tokens have registered since then.

    /// The installations up to an ordinal that match the target's expression.
    static func pageOfApp(_ fanOut: PendingFanOut, through last: Int64) -> PostgresQuery {
        let began = fanOut.beganAt
        return """
            SELECT t.id AS token_id, t.token, t.environment, i.id AS installation, i.owner_epoch, t.unproven, i.locale,
                CASE WHEN f.local_time IS NOT NULL OR q.owner IS NOT NULL THEN
                    due_at(f.local_time, f.lifetime_ms, n.accepted_at, q.begins_at, q.ends_at, coalesce(z.name, 'UTC')) END AS due,
                t.registered_at >= \(milliseconds: began) AND moved_since(t.id, \(milliseconds: began)) AS has_moved
            FROM notifications n JOIN fan_outs f ON f.notification = n.id
            CROSS JOIN LATERAL (
                SELECT i.id, i.ordinal, i.owner, i.owner_epoch, i.locale, i.time_zone FROM installations i
                WHERE i.app_id = n.app_id AND i.ordinal > \(fanOut.checkpoint.position) AND i.ordinal <= \(last)
                    AND i.deregistered_at IS NULL
                    AND audience_words(i.tags, i.permission) @@ f.query
                ORDER BY i.ordinal
            ) AS i
            CROSS JOIN LATERAL (
                SELECT t.id, t.token, t.environment, t.proven_at IS NULL AS unproven, t.registered_at FROM tokens t
                WHERE t.app_id = n.app_id AND t.ordinal = i.ordinal AND t.purpose = \(fanOut.purpose) AND t.state = 'active'
                ORDER BY t.environment
            ) AS t
            LEFT JOIN quiet_hours q ON NOT n.is_urgent AND q.app_id = n.app_id AND q.owner = i.owner
            LEFT JOIN time_zones z ON (f.local_time IS NOT NULL OR q.owner IS NOT NULL) AND z.name = i.time_zone
            WHERE n.id = \(fanOut.template.notification) ORDER BY i.ordinal
            """
    }

    /// The next installations of the app with one of these tags, by the index on tags, which covers every app, in no order.
    /// - Returns: at least one row. `found` is how many installations of every app the index found, at most one more than ``maximumRare``;
    ///   if it found more than that, the rows are not all. The others are NULL if none is left.
    static func taggedInstallations(of fanOut: PendingFanOut, tags: [String], count: Int) -> PostgresQuery {
        """
        WITH tagged AS MATERIALIZED (SELECT app_id, id, ordinal FROM installations WHERE tags && \(tags) AND tags <> '{}' LIMIT 50001)
        SELECT total.found, page.id, page.ordinal FROM (SELECT count(*) AS found FROM tagged) AS total
        LEFT JOIN (
            SELECT id, ordinal FROM tagged WHERE app_id = \(fanOut.app) AND ordinal > \(fanOut.checkpoint.position)
            ORDER BY ordinal LIMIT \(count)
        ) AS page ON true ORDER BY page.ordinal
        """
    }

    static func pageOfTagged(_ fanOut: PendingFanOut, installations: [PushID]) -> PostgresQuery {
        let began = fanOut.beganAt
        return """
            SELECT t.id AS token_id, t.token, t.environment, i.id AS installation, i.owner_epoch, t.unproven, i.locale,
                CASE WHEN f.local_time IS NOT NULL OR q.owner IS NOT NULL THEN
                    due_at(f.local_time, f.lifetime_ms, n.accepted_at, q.begins_at, q.ends_at, coalesce(z.name, 'UTC')) END AS due,
                t.registered_at >= \(milliseconds: began) AND moved_since(t.id, \(milliseconds: began)) AS has_moved
            FROM notifications n JOIN fan_outs f ON f.notification = n.id
            CROSS JOIN LATERAL (
                SELECT i.id, i.ordinal, i.owner, i.owner_epoch, i.locale, i.time_zone, place
                FROM unnest(\(installations)::uuid[]) WITH ORDINALITY AS tagged (id, place)
                CROSS JOIN LATERAL (SELECT * FROM installations WHERE app_id = n.app_id AND id = tagged.id LIMIT 1) AS i
                WHERE i.deregistered_at IS NULL AND audience_words(i.tags, i.permission) @@ f.query
                ORDER BY place
            ) AS i
            CROSS JOIN LATERAL (
                SELECT t.id, t.token, t.environment, t.proven_at IS NULL AS unproven, t.registered_at FROM tokens t
                WHERE t.app_id = n.app_id AND t.ordinal = i.ordinal AND t.purpose = \(fanOut.purpose) AND t.state = 'active'
                ORDER BY t.environment
            ) AS t
            LEFT JOIN quiet_hours q ON NOT n.is_urgent AND q.app_id = n.app_id AND q.owner = i.owner
            LEFT JOIN time_zones z ON (f.local_time IS NOT NULL OR q.owner IS NOT NULL) AND z.name = i.time_zone
            WHERE n.id = \(fanOut.template.notification) ORDER BY i.place
            """
    }

    /// The installations of the whole app up to an ordinal, in order.
    static func installationsOfEverybody(_ fanOut: PendingFanOut, through last: Int64) -> PostgresQuery {
        """
        SELECT i.id AS installation, i.owner_epoch, i.locale, i.ordinal,
            CASE WHEN f.local_time IS NOT NULL OR q.owner IS NOT NULL THEN
                due_at(f.local_time, f.lifetime_ms, n.accepted_at, q.begins_at, q.ends_at,
                    coalesce((SELECT name FROM time_zones WHERE name = i.time_zone), 'UTC')) END AS due
        FROM notifications n JOIN fan_outs f ON f.notification = n.id
        CROSS JOIN LATERAL (
            SELECT i.id, i.ordinal, i.owner, i.owner_epoch, i.locale, i.time_zone FROM installations i
            WHERE i.app_id = n.app_id AND i.ordinal > \(fanOut.checkpoint.position) AND i.ordinal <= \(last) AND i.deregistered_at IS NULL
            ORDER BY i.ordinal
        ) AS i
        LEFT JOIN quiet_hours q ON NOT n.is_urgent AND q.app_id = n.app_id AND q.owner = i.owner
        WHERE n.id = \(fanOut.template.notification) ORDER BY i.ordinal
        """
    }

    /// The tokens of the whole app, in the same order: one pass over the index, which costs half of a lookup for each installation.
    static func tokensOfEverybody(_ fanOut: PendingFanOut, through last: Int64) -> PostgresQuery {
        let began = fanOut.beganAt
        return """
            SELECT t.id AS token_id, t.token, t.environment, t.installation, t.ordinal, t.proven_at IS NULL AS unproven,
                t.registered_at >= \(milliseconds: began) AND moved_since(t.id, \(milliseconds: began)) AS has_moved
            FROM tokens t
            WHERE t.app_id = \(fanOut.app) AND t.ordinal > \(fanOut.checkpoint.position) AND t.ordinal <= \(last)
                AND t.purpose = \(fanOut.purpose) AND t.state = 'active'
            ORDER BY t.ordinal
            """
    }

    /// Finds a list's next places whose users have installations, in order, and how many, counted up to ``installationsOfUser`` and one. It
    /// counts one more than a page may have of all of them together, and stops.
    static func sizes(of fanOut: PendingFanOut, installations: Int) -> PostgresQuery {
        let (start, limit) = (fanOut.checkpoint.position, installationsOfUser + 1)
        return """
            SELECT place, count(*) AS size FROM (
                SELECT x.place FROM addressees x
                CROSS JOIN LATERAL (SELECT FROM installations i WHERE i.app_id = \(fanOut.app) AND i.owner = x.owner
                    LIMIT \(limit)) AS found
                WHERE x.notification = \(fanOut.template.notification) AND x.place > \(start)
                    AND x.place <= \(start + Int64(entriesOfPage))
                ORDER BY x.place LIMIT \(installations + 1)
            ) AS counted GROUP BY place ORDER BY place
            """
    }

    /// The user at the checkpoint has many installations: the next ones, in order, and the first of the page behind them.
    static func nextInstallations(of fanOut: PendingFanOut, count: Int) -> PostgresQuery {
        """
        SELECT i.id FROM (
            SELECT owner FROM addressees
            WHERE notification = \(fanOut.template.notification) AND place = \(fanOut.checkpoint.position + 1) LIMIT 1
        ) AS x CROSS JOIN LATERAL (
            SELECT id FROM installations
            WHERE app_id = \(fanOut.app) AND owner = x.owner AND id >= \(fanOut.checkpoint.installation ?? .zero)
            ORDER BY id LIMIT \(count + 1)
        ) AS i ORDER BY i.id
        """
    }

    /// Finds, for a Live Activity whose user has many installations, the next ones with an update token of its name, whoever owns them, in
    /// order, and the first of the page behind them.
    static func nextReporters(of fanOut: PendingFanOut, count: Int) -> PostgresQuery {
        """
        SELECT DISTINCT installation AS id FROM tokens
        WHERE app_id = \(fanOut.app) AND purpose = \(fanOut.purpose) AND purpose LIKE 'activity:%' AND state = 'active'
            AND installation >= \(fanOut.checkpoint.installation ?? .zero)
        ORDER BY installation LIMIT \(count + 1)
        """
    }

    /// Reads a list's places after the checkpoint's, up to `end`.
    /// - Parameter installations: The only installations to read of the user at the one place.
    static func pageOfList(_ fanOut: PendingFanOut, through end: Int64, installations: [PushID]? = nil) -> PostgresQuery {
        let (began, notification) = (fanOut.beganAt, fanOut.template.notification)
        return """
            WITH named AS (
                SELECT * FROM addressees
                WHERE notification = \(notification) AND place > \(fanOut.checkpoint.position) AND place <= \(end)
            )
            SELECT t.id AS token_id, t.token, t.environment, i.id AS installation, i.owner_epoch, t.unproven, i.locale,
                CASE WHEN f.local_time IS NOT NULL OR q.owner IS NOT NULL THEN
                    due_at(f.local_time, f.lifetime_ms, n.accepted_at, q.begins_at, q.ends_at, coalesce(z.name, 'UTC')) END AS due,
                t.registered_at >= \(milliseconds: began) AND moved_since(t.id, \(milliseconds: began)) AS has_moved
            FROM notifications n JOIN fan_outs f ON f.notification = n.id
            CROSS JOIN LATERAL (
                SELECT i.id, i.ordinal, i.owner, i.owner_epoch, i.locale, i.time_zone, NULL::bytea AS token
                FROM named JOIN installations i ON i.app_id = n.app_id AND i.owner = named.owner
                WHERE \(installations == nil)
                UNION ALL
                SELECT i.id, i.ordinal, i.owner, i.owner_epoch, i.locale, i.time_zone, NULL::bytea
                FROM named CROSS JOIN unnest(\(installations ?? [])::uuid[]) AS one (id)
                CROSS JOIN LATERAL (SELECT * FROM installations WHERE app_id = n.app_id AND id = one.id LIMIT 1) AS i
                WHERE i.owner = named.owner
                UNION ALL
                SELECT i.id, i.ordinal, i.owner, i.owner_epoch, i.locale, i.time_zone, named.token
                FROM named JOIN installations i ON i.app_id = n.app_id AND i.id = named.installation AND i.owner_epoch = named.owner_epoch
            ) AS i
            CROSS JOIN LATERAL (
                SELECT t.id, t.token, t.environment, t.proven_at IS NULL AS unproven, t.registered_at FROM tokens t
                WHERE t.app_id = n.app_id AND t.ordinal = i.ordinal AND t.purpose = \(fanOut.purpose) AND t.state = 'active'
                    AND (i.token IS NULL OR t.token = i.token)
                ORDER BY t.environment
            ) AS t
            LEFT JOIN quiet_hours q ON NOT n.is_urgent AND q.app_id = n.app_id AND q.owner = i.owner
            LEFT JOIN time_zones z ON (f.local_time IS NOT NULL OR q.owner IS NOT NULL) AND z.name = i.time_zone
            WHERE n.id = \(notification)
            """
    }

    /// The end of a page of the activities that follow a channel and are not over. An activity that the system ended stays in the index for
    /// a week, before those that live. So a page looks at no more than 100,000, and may find few that live, or none.
    /// - Returns: also the ordinals of the page's activities, and how many installations each one's user has, counted up to
    ///   ``installationsOfUser`` and one.
    static func endOfActivities(of fanOut: PendingFanOut, _ channel: BroadcastMember) -> PostgresQuery {
        let position = fanOut.checkpoint.position
        return """
            SELECT coalesce(
                CASE WHEN count(*) < \(entriesOfPage) THEN (
                    SELECT ordinal FROM activities WHERE channel = \(channel.id) AND ended_at IS NULL AND ordinal > \(position)
                    ORDER BY ordinal OFFSET 99999 LIMIT 1
                ) END, max(ordinal)) AS ordinal,
                coalesce(array_agg(ordinal ORDER BY ordinal), '{}') AS ordinals, coalesce(array_agg(size ORDER BY ordinal), '{}') AS sizes
            FROM (
                SELECT a.ordinal, o.size FROM (
                    SELECT channel, ordinal, started_at FROM activities
                    WHERE channel = \(channel.id) AND ended_at IS NULL AND ordinal > \(position) ORDER BY ordinal LIMIT 100000
                ) AS a
                -- OFFSET: the order of the activities is kept, and the page ends with its last one.
                CROSS JOIN LATERAL (
                    SELECT FROM channels c WHERE c.id = a.channel AND reaches(c, \(fanOut.template.notification), a.started_at) OFFSET 0
                ) AS c
                CROSS JOIN LATERAL (
                    SELECT count(*) AS size FROM (
                        -- Not above, where the index alone is read.
                        SELECT app_id, owner FROM activities WHERE channel = a.channel AND ordinal = a.ordinal AND ended_at IS NULL LIMIT 1
                    ) AS u
                    CROSS JOIN LATERAL (
                        SELECT FROM installations i WHERE i.app_id = u.app_id AND i.owner = u.owner LIMIT \(installationsOfUser + 1)
                    ) AS found
                ) AS o
                WHERE a.started_at > now() - interval '8 hours'
                ORDER BY a.ordinal LIMIT \(entriesOfPage)
            ) AS page
            """
    }

    /// The user of the activity behind the checkpoint has many installations: the next ones with an update token of the activity's name,
    /// whoever owns them, and the user's next ones. Each in order, and with the first of the page behind them.
    static func nextOfActivity(_ fanOut: PendingFanOut, _ channel: BroadcastMember, count: Int) -> [PostgresQuery] {
        let (ordinal, first) = (fanOut.checkpoint.position + 1, fanOut.checkpoint.installation ?? .zero)
        return [
            """
            SELECT t.installation AS id FROM (
                SELECT app_id, id FROM activities WHERE channel = \(channel.id) AND ordinal = \(ordinal) AND ended_at IS NULL LIMIT 1
            ) AS a CROSS JOIN LATERAL (
                SELECT DISTINCT installation FROM tokens
                WHERE app_id = a.app_id AND purpose = 'activity:' || a.id AND purpose LIKE 'activity:%' AND state = 'active'
                    AND installation >= \(first)
                ORDER BY installation LIMIT \(count + 1)
            ) AS t ORDER BY t.installation
            """,
            """
            SELECT i.id FROM (
                SELECT app_id, owner FROM activities WHERE channel = \(channel.id) AND ordinal = \(ordinal) AND ended_at IS NULL LIMIT 1
            ) AS a CROSS JOIN LATERAL (
                SELECT id FROM installations WHERE app_id = a.app_id AND owner = a.owner AND id >= \(first) ORDER BY id LIMIT \(count + 1)
            ) AS i ORDER BY i.id
            """,
        ]
    }

    /// Reads, up to an ordinal, the activities that devices of their owners have update tokens of, in the channel's environment. Quiet
    /// hours do not hold a broadcast.
    /// - Parameter installations: The only installations to read of the user of the one activity.
    static func pageOfActivities(
        of fanOut: PendingFanOut, _ channel: BroadcastMember, through last: Int64, installations: [PushID]? = nil
    ) -> PostgresQuery {
        let began = fanOut.beganAt
        return """
            SELECT t.id AS token_id, t.token, t.environment, i.id AS installation, i.owner_epoch, t.proven_at IS NULL AS unproven, i.locale,
                NULL::timestamptz AS due, t.registered_at >= \(milliseconds: began)
                    AND moved_since(t.id, \(milliseconds: began)) AS has_moved
            FROM channels c JOIN activities a ON a.channel = c.id
            CROSS JOIN LATERAL (
                SELECT o.id, o.ordinal, o.owner_epoch, o.locale FROM installations o
                WHERE o.app_id = a.app_id AND o.owner = a.owner AND \(installations == nil)
                UNION ALL
                SELECT o.id, o.ordinal, o.owner_epoch, o.locale FROM unnest(\(installations ?? [])::uuid[]) AS one (id)
                CROSS JOIN LATERAL (SELECT * FROM installations WHERE app_id = a.app_id AND id = one.id LIMIT 1) AS o
                WHERE o.owner = a.owner
                UNION ALL
                SELECT o.id, o.ordinal, o.owner_epoch, o.locale FROM installations o
                WHERE o.app_id = a.app_id AND o.id = a.installation AND o.owner IS NULL
            ) AS i
            CROSS JOIN LATERAL (
                SELECT * FROM tokens t WHERE t.app_id = a.app_id AND t.ordinal = i.ordinal AND t.purpose = 'activity:' || a.id
                    AND t.environment = \(channel.environment) AND t.state = 'active'
                ORDER BY t.environment
            ) AS t
            WHERE c.id = \(channel.id) AND a.ended_at IS NULL AND a.ordinal > \(fanOut.checkpoint.position) AND a.ordinal <= \(last)
                -- IS TRUE: by the channel alone, not also by the start of all apps' activities.
                AND (a.started_at > now() - interval '8 hours') IS TRUE AND reaches(c, \(fanOut.template.notification), a.started_at)
            ORDER BY a.ordinal
            """
    }

    /// The members of some of a notification's jobs, one after the other.
    static func members(of fanOut: PendingFanOut, from first: Int, count: Int) -> PostgresQuery {
        """
        SELECT coalesce(string_agg(members, ''), '') AS members FROM jobs
        WHERE notification = \(fanOut.template.notification) AND number >= \(first) AND number < \(first + count)
        """
    }

    /// Moves the checkpoint from where this fan-out has seen it. If another process has gone on, or the notification was stopped, it moves
    /// none, and the caller has to roll the transaction back. If it waits for an outcome, PostgreSQL decides by the row that it waited for,
    /// which holds the outcomes' counts too.
    /// - Returns: a row with how many deliveries are pending now, if it moved the checkpoint.
    static func advance(_ page: PendingFanOut.Page, of fanOut: PendingFanOut, leaseSeconds: Double) -> PostgresQuery {
        let (from, count, isLast) = (fanOut.checkpoint, page.count, page.isLast)
        return """
            WITH counted AS (
                UPDATE notifications SET jobs = \(page.end.jobs), total = total + \(count)::bigint, pending = pending + \(count)::bigint,
                    state = CASE WHEN NOT \(isLast) THEN 'expanding' WHEN pending + \(count)::bigint > 0 THEN 'sending'
                        WHEN total + \(count)::bigint > 0 THEN
                            CASE WHEN expires_at <= now() AND are_unsent(outcomes) THEN 'expired' ELSE 'completed' END
                        WHEN expires_at <= now() THEN 'expired' ELSE 'no_targets' END,
                    completed_at = CASE WHEN \(isLast) AND pending + \(count)::bigint = 0 THEN now() END
                WHERE id = \(fanOut.template.notification) AND state IN ('accepted', 'scheduled', 'expanding') AND jobs = \(from.jobs)
                RETURNING id, pending
            )
            UPDATE fan_outs f SET checkpoint = \(page.end.position), checkpoint_installation = \(page.end.installation),
                are_tags_common = f.are_tags_common OR \(page.areTagsCommon), ended_at = CASE WHEN \(isLast) THEN now() END,
                free_from = CASE WHEN NOT \(isLast) THEN now() + make_interval(secs => \(leaseSeconds)) END
            FROM counted c WHERE f.notification = c.id AND f.checkpoint = \(from.position)
                AND f.checkpoint_installation IS NOT DISTINCT FROM \(from.installation)
            RETURNING c.pending
            """
    }

    /// Inserts jobs by fan-out's own clock (`now`), which also decides which jobs it publishes itself. A job that is due after the expiry
    /// waits for the expiry alone.
    static func insertJobs(_ jobs: [Job], of fanOut: PendingFanOut, leaseSeconds: Double, now: Int64) -> PostgresQuery {
        let expiresAt = fanOut.template.expiresAt
        return """
            INSERT INTO jobs (notification, number, app_id, lane, locale, due_at, members, sandbox, free_from)
            SELECT \(fanOut.template.notification), number, \(fanOut.app), \(fanOut.template.lane), locale, due, members,
                sandbox::bit(100),
                CASE WHEN due > \(milliseconds: now) THEN greatest(now(), least(due, \(milliseconds: expiresAt)))
                    ELSE now() + make_interval(secs => \(leaseSeconds)) END
            FROM unnest(\(jobs.map(\.number))::bigint[], \(jobs.map(\.locale))::text[], \(milliseconds: jobs.map(\.dueAt))::timestamptz[],
                    \(jobs.map { Job.bytes(of: $0.members) })::bytea[], \(jobs.map { Job.mask(of: $0.sandbox) })::text[])
                AS e (number, locale, due, members, sandbox)
            """
    }
}
