import Postgres
import PushModel
import TokenServiceRegistry

/// The devices that a notification means. A target that names installations or tokens means them as they were when it was accepted: with
/// the same owner, and tokens at the same installation.
extension FanOutStore {
    /// The end of a page of an app's installations.
    static func pageEnd(of fanOut: PendingFanOut, installations: Int) -> PostgresQuery {
        """
        SELECT ordinal, count(*) OVER () AS read FROM (
            SELECT ordinal FROM installations WHERE app_id = \(fanOut.app) AND ordinal > \(fanOut.checkpoint.position)
            ORDER BY ordinal LIMIT \(installations)
        ) AS page ORDER BY ordinal DESC LIMIT 1
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

    /// How a page finds its installations.
    enum Search {
        /// The app's up to an ordinal that match the target's expression.
        case ofApp(through: Int64)
        /// These, if they match it.
        case tagged([PushID])
        /// Those of a list's places up to this one; of the user at the one place only these, if they are named.
        case ofList(through: Int64, installations: [PushID]? = nil)
    }

    /// Reads the devices of a page, with the columns of ``PendingFanOut/Found``.
    static func page(of fanOut: PendingFanOut, _ search: Search) -> PostgresQuery {
        """
        SELECT \(token(fanOut)), \(installation())
        FROM notifications n JOIN fan_outs f ON f.notification = n.id
        CROSS JOIN LATERAL (\(installations(of: fanOut, search))) AS i
        CROSS JOIN LATERAL (
            SELECT * FROM tokens t
            WHERE t.app_id = n.app_id AND t.ordinal = i.ordinal AND t.purpose = \(fanOut.purpose) AND t.state = 'active'
                AND (i.named IS NULL OR t.token = i.named)
            ORDER BY t.environment
        ) AS t
        \(quietHours()) WHERE n.id = \(fanOut.template.notification) ORDER BY i.place
        """
    }

    private static func installations(of fanOut: PendingFanOut, _ search: Search) -> PostgresQuery {
        let position = fanOut.checkpoint.position
        return switch search {
        case .ofApp(let last):
            "\(inOrder(fanOut, through: last)) AND audience_words(tags, permission) @@ f.query ORDER BY ordinal"
        case .tagged(let ids):
            """
            SELECT i.*, place, NULL::bytea AS named FROM unnest(\(ids)::uuid[]) WITH ORDINALITY AS tagged (id, place)
            CROSS JOIN LATERAL (SELECT * FROM installations WHERE app_id = n.app_id AND id = tagged.id LIMIT 1) AS i
            WHERE i.deregistered_at IS NULL AND audience_words(i.tags, i.permission) @@ f.query ORDER BY place
            """
        case .ofList(let last, let ids):
            """
            SELECT i.*, x.place, x.token AS named FROM addressees x CROSS JOIN LATERAL (
                \(ofUser(ids))
                UNION ALL SELECT * FROM installations WHERE app_id = x.app_id AND id = x.installation AND owner_epoch = x.owner_epoch
            ) AS i WHERE x.notification = \(fanOut.template.notification) AND x.place > \(position) AND x.place <= \(last)
            """
        }
    }

    /// Reads the installations of the whole app up to an ordinal, in order.
    static func installationsOfEverybody(_ fanOut: PendingFanOut, through last: Int64) -> PostgresQuery {
        """
        SELECT i.ordinal, \(installation()) FROM notifications n JOIN fan_outs f ON f.notification = n.id
        CROSS JOIN LATERAL (\(inOrder(fanOut, through: last)) ORDER BY ordinal) AS i
        \(quietHours()) WHERE n.id = \(fanOut.template.notification) ORDER BY i.ordinal
        """
    }

    /// Reads the tokens of the whole app, in the same order: one pass over the index, which costs half of a lookup for each installation.
    static func tokensOfEverybody(_ fanOut: PendingFanOut, through last: Int64) -> PostgresQuery {
        """
        SELECT t.ordinal, \(token(fanOut)) FROM tokens t
        WHERE t.app_id = \(fanOut.app) AND t.ordinal > \(fanOut.checkpoint.position) AND t.ordinal <= \(last)
            AND t.purpose = \(fanOut.purpose) AND t.state = 'active'
        ORDER BY t.ordinal, t.purpose, t.environment
        """
    }

    /// The installations of the app of `n` up to an ordinal.
    private static func inOrder(_ fanOut: PendingFanOut, through last: Int64) -> PostgresQuery {
        """
        SELECT *, ordinal AS place, NULL::bytea AS named FROM installations WHERE app_id = n.app_id
            AND ordinal > \(fanOut.checkpoint.position) AND ordinal <= \(last) AND deregistered_at IS NULL
        """
    }

    /// The installations of the user of `x`, or only these of them.
    private static func ofUser(_ ids: [PushID]?) -> PostgresQuery {
        """
        SELECT * FROM installations WHERE app_id = x.app_id AND owner = x.owner AND \(ids)::uuid[] IS NULL
        UNION ALL SELECT o.* FROM unnest(\(ids)::uuid[]) AS one (id)
        CROSS JOIN LATERAL (SELECT * FROM installations WHERE app_id = x.app_id AND id = one.id LIMIT 1) AS o WHERE o.owner = x.owner
        """
    }

    /// The columns of a token `t`. `has_moved`: it has moved between installations since fan-out may have begun, so that it may be in a job
    /// already; few tokens have registered since then.
    private static func token(_ fanOut: PendingFanOut) -> PostgresQuery {
        let began = fanOut.beganAt
        return """
            t.id AS token_id, t.token, t.environment, t.installation, t.proven_at IS NULL AS unproven,
            t.registered_at >= \(milliseconds: began) AND moved_since(t.id, \(milliseconds: began)) AS has_moved
            """
    }

    /// The columns of an installation `i`. `due` is NULL where a delivery is due now; it lies in the past where fan-out is late.
    private static func installation() -> PostgresQuery {
        """
        i.owner_epoch, i.locale, CASE WHEN f.local_time IS NOT NULL OR q.owner IS NOT NULL THEN
            due_at(f.local_time, f.lifetime_ms, n.accepted_at, q.begins_at, q.ends_at,
                coalesce((SELECT name FROM time_zones WHERE name = i.time_zone), 'UTC')) END AS due
        """
    }

    private static func quietHours() -> PostgresQuery {
        "LEFT JOIN quiet_hours q ON NOT n.is_urgent AND q.app_id = n.app_id AND q.owner = i.owner"
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

    /// The user at the place behind the checkpoint, or of the activity, has many installations: the next ones, in order, and the first of
    /// the page behind them.
    static func nextInstallations(of fanOut: PendingFanOut, count: Int) -> PostgresQuery {
        """
        SELECT i.id FROM (\(user(of: fanOut))) AS x CROSS JOIN LATERAL (
            SELECT id FROM installations
            WHERE app_id = x.app_id AND owner = x.owner AND id >= \(fanOut.checkpoint.installation ?? .zero)
            ORDER BY id LIMIT \(count + 1)
        ) AS i ORDER BY i.id
        """
    }

    /// Finds, for a Live Activity of such a user, the next installations with an update token of its name, whoever owns them.
    static func nextReporters(of fanOut: PendingFanOut, count: Int) -> PostgresQuery {
        """
        SELECT t.id FROM (\(user(of: fanOut))) AS x CROSS JOIN LATERAL (
            SELECT DISTINCT installation AS id FROM tokens
            WHERE app_id = x.app_id AND purpose = x.purpose AND purpose LIKE 'activity:%' AND state = 'active'
                AND installation >= \(fanOut.checkpoint.installation ?? .zero)
            ORDER BY installation LIMIT \(count + 1)
        ) AS t ORDER BY t.id
        """
    }

    private static func user(of fanOut: PendingFanOut) -> PostgresQuery {
        let place = fanOut.checkpoint.position + 1
        guard let channel = fanOut.channel else {
            return """
                SELECT app_id, owner, \(fanOut.purpose)::text AS purpose FROM addressees
                WHERE notification = \(fanOut.template.notification) AND place = \(place) LIMIT 1
                """
        }
        return """
            SELECT app_id, owner, 'activity:' || id AS purpose FROM activities
            WHERE channel = \(channel.followed) AND ordinal = \(place) AND ended_at IS NULL LIMIT 1
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
                    SELECT ordinal FROM activities WHERE channel = \(channel.followed) AND ended_at IS NULL AND ordinal > \(position)
                    ORDER BY ordinal OFFSET 99999 LIMIT 1
                ) END, max(ordinal)) AS ordinal,
                coalesce(array_agg(ordinal ORDER BY ordinal), '{}') AS ordinals, coalesce(array_agg(size ORDER BY ordinal), '{}') AS sizes
            FROM (
                SELECT a.ordinal, o.size FROM (
                    SELECT channel, ordinal, started_at FROM activities
                    WHERE channel = \(channel.followed) AND ended_at IS NULL AND ordinal > \(position) ORDER BY ordinal LIMIT 100000
                ) AS a
                -- OFFSET: the order of the activities is kept, and the page ends with its last one.
                CROSS JOIN LATERAL (
                    SELECT FROM update_targets c WHERE c.app_id = \(fanOut.app) AND c.owned_by = 'channel'
                        AND c.id = \(fanOut.updates?.id) AND reaches(c, \(fanOut.template.notification), a.started_at) OFFSET 0
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

    /// Reads, up to an ordinal, the activities that devices of their owners have update tokens of, in the channel's environment. Quiet
    /// hours do not hold a broadcast.
    /// - Parameter installations: The only installations to read of the user of the one activity.
    static func pageOfActivities(
        of fanOut: PendingFanOut, _ channel: BroadcastMember, through last: Int64, installations: [PushID]? = nil
    ) -> PostgresQuery {
        """
        SELECT \(token(fanOut)), i.owner_epoch, i.locale, NULL::timestamptz AS due FROM activities x
        JOIN update_targets c ON c.app_id = \(fanOut.app) AND c.owned_by = 'channel' AND c.id = \(fanOut.updates?.id)
        CROSS JOIN LATERAL (
            \(ofUser(installations))
            UNION ALL SELECT * FROM installations WHERE app_id = x.app_id AND id = x.installation AND owner IS NULL
        ) AS i
        CROSS JOIN LATERAL (
            SELECT * FROM tokens t WHERE t.app_id = x.app_id AND t.ordinal = i.ordinal AND t.purpose = 'activity:' || x.id
                AND t.environment = \(channel.environment) AND t.state = 'active'
            ORDER BY t.environment
        ) AS t
        WHERE x.channel = \(channel.followed) AND x.ended_at IS NULL AND x.ordinal > \(fanOut.checkpoint.position) AND x.ordinal <= \(last)
            -- IS TRUE: by the channel alone, not also by the start of all apps' activities.
            AND (x.started_at > now() - interval '8 hours') IS TRUE AND reaches(c, \(fanOut.template.notification), x.started_at)
        ORDER BY x.ordinal
        """
    }
}
