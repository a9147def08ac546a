import Postgres

/// Removes rows that are too old to be needed. It finds them by an index on their time, and removes them in bounded steps. A row that
/// another transaction has locked is left to the next round.
package struct Sweep: Sendable {
    /// Rows of one step.
    package static let batch = 5000

    package let kind: Retention.Kind
    let statement: @Sendable (_ limit: Int) -> PostgresQuery

    package static let all = [outcomeCounts, tokenMoves, fences, quarantine, notificationEvents, activities]

    /// The brake on rejections looks back ten minutes.
    package static let outcomeCounts = Sweep(kind: .outcomeCounts) { limit in
        """
        DELETE FROM outcome_counts WHERE ctid = ANY (ARRAY(
            SELECT ctid FROM outcome_counts WHERE minute < now() - interval '1 day'
            ORDER BY minute LIMIT \(limit) FOR UPDATE SKIP LOCKED))
        """
    }
    /// After longer than a job waits in the broker.
    package static let tokenMoves = Sweep(kind: .tokenMoves) { limit in
        """
        DELETE FROM token_moves WHERE ctid = ANY (ARRAY(
            SELECT ctid FROM token_moves WHERE moved_at < now() - interval '4 days'
            ORDER BY moved_at LIMIT \(limit) FOR UPDATE SKIP LOCKED))
        """
    }
    /// Published fences, after longer than the control stream keeps them.
    package static let fences = Sweep(kind: .fences) { limit in
        """
        DELETE FROM fences WHERE ctid = ANY (ARRAY(
            SELECT ctid FROM fences WHERE published_at < now() - interval '7 days'
            ORDER BY published_at LIMIT \(limit) FOR UPDATE SKIP LOCKED))
        """
    }
    /// Only those that every feed has read; kept a day for the operator.
    package static let notificationEvents = Sweep(kind: .notificationEvents) { limit in
        """
        DELETE FROM notification_events WHERE ctid = ANY (ARRAY(
            SELECT oldest.ctid FROM (SELECT ctid, id, at FROM notification_events ORDER BY id LIMIT \(limit)) AS oldest
            WHERE oldest.at < now() - interval '1 day'
                AND oldest.id <= (SELECT min(position) FROM event_feeds WHERE log = 'notifications')))
        """
    }
    /// Off the lock screen for long; kept a week for who asks what became of them.
    package static let activities = Sweep(kind: .activities) { limit in
        """
        DELETE FROM activities WHERE ctid = ANY (ARRAY(
            SELECT ctid FROM activities WHERE started_at < now() - interval '7 days'
            ORDER BY started_at LIMIT \(limit) FOR UPDATE SKIP LOCKED))
        """
    }
    /// Only the mark: the token stays retired.
    package static let quarantine = Sweep(kind: .quarantine) { limit in
        """
        UPDATE tokens SET quarantined_at = NULL WHERE id = ANY (ARRAY(
            SELECT id FROM tokens WHERE quarantined_at < now() - \(QuarantineStore.retentionDays) * interval '1 day'
            ORDER BY quarantined_at, id LIMIT \(limit) FOR NO KEY UPDATE SKIP LOCKED))
        """
    }

    /// In every state, also those of webhooks that stay disabled.
    package static func webhookMessages(days: Int) -> Sweep {
        Sweep(kind: .webhookMessages) { limit in
            """
            DELETE FROM webhook_messages WHERE ctid = ANY (ARRAY(
                SELECT ctid FROM webhook_messages WHERE created_at < now() - \(days) * interval '1 day'
                ORDER BY created_at LIMIT \(limit) FOR UPDATE SKIP LOCKED))
            """
        }
    }
}
