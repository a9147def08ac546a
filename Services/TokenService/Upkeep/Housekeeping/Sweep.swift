import Postgres
import TokenServiceRegistry

/// Removes rows that are too old to be needed. It finds them by an index on their time, and removes them in bounded steps. A row that
/// another transaction has locked is left to the next round.
///
/// Each step begins where the one before it ended: while a snapshot is open, PostgreSQL keeps the entries of removed rows, and a step that
/// began at the left end of the index would read past all of them.
package struct Sweep: Sendable {
    /// Rows of one step.
    package static let batch = 5000

    package let kind: Retention.Kind
    /// Answers one row: `count`, how many rows go, `looked`, how many old rows it looked at, and `last`, where these end (see
    /// ``Retention/Step/last``).
    let statement: @Sendable (_ limit: Int, _ from: Int64) -> PostgresQuery

    package static let all = [outcomeCounts, tokenMoves, fences, quarantine, notificationEvents, activities, channels, signOuts]

    /// The brake on rejections looks back ten minutes.
    package static let outcomeCounts = Sweep(kind: .outcomeCounts) { limit, from in
        """
        WITH found AS (
            SELECT ctid AS place, minute FROM outcome_counts WHERE minute >= \(milliseconds: from) AND minute < now() - interval '1 day'
            ORDER BY minute LIMIT \(limit) FOR UPDATE SKIP LOCKED
        ), removed AS (
            DELETE FROM outcome_counts WHERE ctid = ANY (ARRAY(SELECT place FROM found))
        )
        SELECT count(*) AS count, count(*) AS looked, floor(extract(epoch FROM max(minute)) * 1000)::bigint AS last FROM found
        """
    }
    /// Removes moves of tokens after longer than a job waits in the broker.
    package static let tokenMoves = Sweep(kind: .tokenMoves) { limit, from in
        """
        WITH found AS (
            SELECT ctid AS place, moved_at FROM token_moves WHERE moved_at >= \(milliseconds: from) AND moved_at < now() - interval '4 days'
            ORDER BY moved_at LIMIT \(limit) FOR UPDATE SKIP LOCKED
        ), removed AS (
            DELETE FROM token_moves WHERE ctid = ANY (ARRAY(SELECT place FROM found))
        )
        SELECT count(*) AS count, count(*) AS looked, floor(extract(epoch FROM max(moved_at)) * 1000)::bigint AS last FROM found
        """
    }
    /// Published fences, after longer than the control stream keeps them.
    package static let fences = Sweep(kind: .fences) { limit, from in
        """
        WITH found AS (
            SELECT ctid AS place, published_at FROM fences
            WHERE published_at >= \(milliseconds: from) AND published_at < now() - interval '7 days'
            ORDER BY published_at LIMIT \(limit) FOR UPDATE SKIP LOCKED
        ), removed AS (
            DELETE FROM fences WHERE ctid = ANY (ARRAY(SELECT place FROM found))
        )
        SELECT count(*) AS count, count(*) AS looked, floor(extract(epoch FROM max(published_at)) * 1000)::bigint AS last FROM found
        """
    }
    /// Removes events that every feed has read, kept a day for the operator. A step goes on behind the events of an app that is behind.
    package static let notificationEvents = Sweep(kind: .notificationEvents) { limit, from in
        """
        WITH old AS (
            SELECT oldest.* FROM (
                SELECT ctid AS place, id, app_id, at FROM notification_events WHERE id > \(from) ORDER BY id LIMIT \(limit)
            ) AS oldest
            WHERE oldest.at < now() - interval '1 day'
                AND oldest.id <= (SELECT min(position) FROM event_feeds WHERE log = 'notifications')
        ), found AS (
            SELECT place FROM old WHERE NOT EXISTS (
                SELECT FROM event_feeds f CROSS JOIN LATERAL unnest(f.behind_apps, f.behind_positions) AS b (app, position)
                WHERE f.log = 'notifications' AND b.app = old.app_id AND b.position < old.id)
        ), removed AS (
            DELETE FROM notification_events WHERE ctid = ANY (ARRAY(SELECT place FROM found))
        )
        SELECT (SELECT count(*) FROM found) AS count, count(*) AS looked, max(id) AS last FROM old
        """
    }
    /// Off the lock screen for long; kept a week for who asks what became of them. A channel's row has no start.
    package static let activities = Sweep(kind: .activities) { limit, from in
        """
        WITH found AS (
            SELECT ctid AS place, started_at FROM update_targets
            WHERE started_at >= \(milliseconds: from) AND started_at < now() - interval '7 days'
            ORDER BY started_at LIMIT \(limit) FOR UPDATE SKIP LOCKED
        ), removed AS (
            DELETE FROM update_targets WHERE ctid = ANY (ARRAY(SELECT place FROM found))
        )
        SELECT count(*) AS count, count(*) AS looked, floor(extract(epoch FROM max(started_at)) * 1000)::bigint AS last FROM found
        """
    }
    /// Removes what updates know of channels that were deleted: the activities that these have ended are off the lock screen.
    package static let channels = Sweep(kind: .channels) { limit, from in
        """
        WITH found AS (
            SELECT ctid AS place, removed_at FROM update_targets
            WHERE removed_at >= \(milliseconds: from) AND removed_at < now() - interval '12 hours'
            ORDER BY removed_at LIMIT \(limit) FOR UPDATE SKIP LOCKED
        ), removed AS (
            DELETE FROM update_targets WHERE ctid = ANY (ARRAY(SELECT place FROM found))
        )
        SELECT count(*) AS count, count(*) AS looked, floor(extract(epoch FROM max(removed_at)) * 1000)::bigint AS last FROM found
        """
    }
    /// Removes moments of sign-outs that are before the making of every credential that may still sign a user in.
    package static let signOuts = Sweep(kind: .signOuts) { limit, from in
        """
        WITH found AS (
            SELECT ctid AS place, signed_out_at FROM sign_outs
            WHERE signed_out_at >= \(milliseconds: from) AND signed_out_at < now() - \(SignOutMoments.kept) * interval '1 millisecond'
            ORDER BY signed_out_at LIMIT \(limit) FOR UPDATE SKIP LOCKED
        ), removed AS (
            DELETE FROM sign_outs WHERE ctid = ANY (ARRAY(SELECT place FROM found))
        )
        SELECT count(*) AS count, count(*) AS looked, floor(extract(epoch FROM max(signed_out_at)) * 1000)::bigint AS last FROM found
        """
    }
    /// Removes only the mark: the token stays retired.
    package static let quarantine = Sweep(kind: .quarantine) { limit, from in
        """
        WITH found AS (
            SELECT id, quarantined_at FROM tokens
            WHERE (quarantined_at IS NULL) IS FALSE AND quarantined_at >= \(milliseconds: from)
                AND quarantined_at < now() - \(QuarantineStore.retentionDays) * interval '1 day'
            ORDER BY quarantined_at, id LIMIT \(limit) FOR NO KEY UPDATE SKIP LOCKED
        ), cleared AS (
            UPDATE tokens SET quarantined_at = NULL WHERE id = ANY (ARRAY(SELECT id FROM found))
        )
        SELECT count(*) AS count, count(*) AS looked, floor(extract(epoch FROM max(quarantined_at)) * 1000)::bigint AS last FROM found
        """
    }

    /// Removes events that no feed has read, or not for their app: they are lost. They stay a day longer than messages to webhooks, and
    /// what was read goes before (``notificationEvents``).
    package static func unreadEvents(days: Int) -> Sweep {
        Sweep(kind: .unreadEvents) { limit, from in
            """
            WITH found AS (
                SELECT oldest.* FROM (
                    SELECT ctid AS place, id, at FROM notification_events WHERE id > \(from) ORDER BY id LIMIT \(limit)
                ) AS oldest
                WHERE oldest.at < now() - (\(days) + 1) * interval '1 day'
            ), removed AS (
                DELETE FROM notification_events WHERE ctid = ANY (ARRAY(SELECT place FROM found))
            )
            SELECT count(*) AS count, count(*) AS looked, max(id) AS last FROM found
            """
        }
    }

    /// Removes holds that nothing waits for any more. They stay for longer than the 73 hours in which the holds of an app are counted.
    package static func holds(days: Int) -> Sweep {
        Sweep(kind: .holds) { limit, from in
            """
            WITH found AS (
                SELECT ctid AS place, least(lifted_at, ends_at) AS ended_at FROM holds
                WHERE least(lifted_at, ends_at) >= \(milliseconds: from)
                    AND least(lifted_at, ends_at) < now() - greatest(\(days), 4) * interval '1 day'
                    AND (lifted_at IS NULL OR num_nulls(published_at, released_at) = 0)
                ORDER BY least(lifted_at, ends_at) LIMIT \(limit) FOR UPDATE SKIP LOCKED
            ), removed AS (
                DELETE FROM holds WHERE ctid = ANY (ARRAY(SELECT place FROM found))
            )
            SELECT count(*) AS count, count(*) AS looked, floor(extract(epoch FROM max(ended_at)) * 1000)::bigint AS last FROM found
            """
        }
    }

    /// Removes messages to webhooks in every state, also those of webhooks that stay disabled.
    package static func webhookMessages(days: Int) -> Sweep {
        Sweep(kind: .webhookMessages) { limit, from in
            """
            WITH found AS (
                SELECT ctid AS place, created_at FROM webhook_messages
                WHERE created_at >= \(milliseconds: from) AND created_at < now() - \(days) * interval '1 day'
                ORDER BY created_at LIMIT \(limit) FOR UPDATE SKIP LOCKED
            ), removed AS (
                DELETE FROM webhook_messages WHERE ctid = ANY (ARRAY(SELECT place FROM found))
            )
            SELECT count(*) AS count, count(*) AS looked, floor(extract(epoch FROM max(created_at)) * 1000)::bigint AS last FROM found
            """
        }
    }
}
