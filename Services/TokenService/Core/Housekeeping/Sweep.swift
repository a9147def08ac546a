package import Postgres

/// What nothing refers to any more once it has its age: found by the index on its time, removed in bounded steps. A row that somebody
/// else works on at this moment is left to the next round.
package struct Sweep: Sendable {
    /// Rows of one step.
    package static let batch: Int64 = 5000

    package let kind: Retention.Kind
    /// Parameters: ``days`` and ``batch``.
    package let statement: PostgresStatement
    package let days: Int

    package static let all = [idempotencyRecords, outcomeCounts, tokenMoves, fences, quarantine, notificationEvents]

    /// They name their own end.
    package static let idempotencyRecords = Sweep(
        kind: .idempotencyRecords,
        statement: """
            DELETE FROM idempotency_records WHERE ctid = ANY (ARRAY(
                SELECT ctid FROM idempotency_records WHERE expires_at < now() - make_interval(days => $1)
                ORDER BY expires_at LIMIT $2 FOR UPDATE SKIP LOCKED))
            """, days: 0)
    /// The brake looks back over minutes.
    package static let outcomeCounts = Sweep(
        kind: .outcomeCounts,
        statement: """
            DELETE FROM outcome_counts WHERE ctid = ANY (ARRAY(
                SELECT ctid FROM outcome_counts WHERE minute < now() - make_interval(days => $1)
                ORDER BY minute LIMIT $2 FOR UPDATE SKIP LOCKED))
            """, days: 1)
    /// Longer than anything waits in the broker.
    package static let tokenMoves = Sweep(
        kind: .tokenMoves,
        statement: """
            DELETE FROM token_moves WHERE ctid = ANY (ARRAY(
                SELECT ctid FROM token_moves WHERE moved_at < now() - make_interval(days => $1)
                ORDER BY moved_at LIMIT $2 FOR UPDATE SKIP LOCKED))
            """, days: 4)
    /// The published ones, longer than the control stream keeps them.
    package static let fences = Sweep(
        kind: .fences,
        statement: """
            DELETE FROM fences WHERE ctid = ANY (ARRAY(
                SELECT ctid FROM fences WHERE published_at < now() - make_interval(days => $1)
                ORDER BY published_at LIMIT $2 FOR UPDATE SKIP LOCKED))
            """, days: 7)
    /// What every feed has read; kept for a while for whoever looks into it.
    package static let notificationEvents = Sweep(
        kind: .notificationEvents,
        statement: """
            DELETE FROM notification_events WHERE ctid = ANY (ARRAY(
                SELECT oldest.ctid FROM (SELECT ctid, id, at FROM notification_events ORDER BY id LIMIT $2) AS oldest
                WHERE oldest.at < now() - make_interval(days => $1)
                    AND oldest.id <= (SELECT min(position) FROM event_feeds WHERE log = 'notifications')))
            """, days: 1)
    /// Whatever became of them: also those of webhooks that stay disabled.
    package static func webhookMessages(days: Int) -> Sweep {
        Sweep(
            kind: .webhookMessages,
            statement: """
                DELETE FROM webhook_messages WHERE ctid = ANY (ARRAY(
                    SELECT ctid FROM webhook_messages WHERE created_at < now() - make_interval(days => $1)
                    ORDER BY created_at LIMIT $2 FOR UPDATE SKIP LOCKED))
                """, days: days)
    }
    /// The mark alone: the token stays retired.
    package static let quarantine = Sweep(
        kind: .quarantine,
        statement: """
            UPDATE tokens SET quarantined_at = NULL WHERE id = ANY (ARRAY(
                SELECT id FROM tokens WHERE quarantined_at < now() - make_interval(days => $1)
                ORDER BY quarantined_at, id LIMIT $2 FOR NO KEY UPDATE SKIP LOCKED))
            """, days: QuarantineStore.retentionDays)
}
