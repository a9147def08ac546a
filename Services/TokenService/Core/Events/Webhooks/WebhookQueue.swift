package import Postgres
package import PushModel

/// The same tables as whoever delivers sees them.
package struct WebhookQueue {
    private let session: PostgresSession

    package init(session: PostgresSession) { self.session = session }

    /// Takes messages that are due, of each webhook as many as have room beside those that are under way.
    /// - Parameters:
    ///   - underWay: By webhook, in this process.
    ///   - limit: Altogether.
    package func claim(underWay: [PushID: Int], perWebhook: Int, limit: Int, leaseSeconds: Double) throws -> [WebhookMessage.Claimed] {
        let busy = underWay.sorted { $0.key < $1.key }
        let parameters: [PostgresValue] = [
            .ids(busy.map(\.key)), .int32Array(busy.map { Int32(clamping: $0.value) }), .int64(Int64(perWebhook)), .int64(Int64(limit)),
            .double(leaseSeconds),
        ]
        return try session.execute(Self.claim, parameters).map { row in
            WebhookMessage.Claimed(
                webhook: try row.id(0), id: try row.id(1), body: try row.bytes(2), attempts: Int(try row.int32(3)), url: try row.text(4),
                secrets: [try row.bytes(5)].map(WebhookSecret.init) + [try row.optionalBytes(6)].compactMap { $0.map(WebhookSecret.init) })
        }
    }

    package func delivered(_ message: WebhookMessage.Claimed, status: Int) throws {
        // The webhook before its messages, as its deletion does.
        try session.execute(Self.succeeded, [.id(message.webhook)])
        try session.execute(Self.delivered, [.id(message.webhook), .id(message.id), .int32(Int32(clamping: status))])
    }

    /// - Parameters:
    ///   - delay: Until the next attempt; nil where none follows.
    ///   - isGone: The webhook wants no more.
    ///   - disableAfterDays: Of failures alone.
    /// - Returns: why the webhook is disabled now, where this did it.
    package func failed(
        _ message: WebhookMessage.Claimed, status: Int?, error: String, delay: Duration?, isGone: Bool, disableAfterDays: Int
    ) throws -> Webhook.DisabledReason? {
        let row = try session.execute(
            Self.noteFailure, [.id(message.webhook), .text(error), .bool(isGone), .int32(Int32(clamping: disableAfterDays))]
        ).first
        try session.execute(
            Self.failed,
            [
                .id(message.webhook), .id(message.id), .optionalInt32(status.map { Int32(clamping: $0) }), .text(error),
                .optionalDouble(delay.map { $0 / .seconds(1) }),
            ])
        return try row.flatMap { row in try row.optionalText(0).flatMap(Webhook.DisabledReason.init(rawValue:)) }
    }

    /// - Returns: the webhooks that it disabled.
    package func disableOverfull(limit: Int) throws -> [PushID] {
        try session.execute(Self.disableOverfull, [.int64(Int64(limit))]).map { row in try row.id(0) }
    }

    /// For how long the message that is due longest has waited for an attempt, in seconds.
    package func lag() throws -> Double { try session.execute(Self.lag).only().double(0) }

    /// Locked in the order of the webhooks and of what is due; one that fails gets one attempt at a time.
    private static let claim: PostgresStatement = """
        WITH taken AS (
            SELECT w.id AS webhook, m.id, w.url, w.secret, CASE WHEN w.previous_until > now() THEN w.previous_secret END AS previous
            FROM webhooks w LEFT JOIN unnest($1::uuid[], $2::int[]) AS busy (webhook, number) ON busy.webhook = w.id
            CROSS JOIN LATERAL (
                SELECT d.id FROM webhook_messages d
                WHERE d.webhook = w.id AND d.state = 'pending' AND d.due_at <= now() ORDER BY d.due_at
                LIMIT greatest(0, CASE WHEN w.failing_since IS NULL THEN $3 ELSE 1 END - coalesce(busy.number, 0))
                FOR NO KEY UPDATE SKIP LOCKED
            ) AS m
            WHERE w.disabled_reason IS NULL LIMIT $4
        )
        UPDATE webhook_messages m SET attempts = m.attempts + 1, due_at = now() + make_interval(secs => $5) FROM taken t
        WHERE m.webhook = t.webhook AND m.id = t.id RETURNING m.webhook, m.id, m.body, m.attempts, t.url, t.secret, t.previous
        """
    /// IS TRUE, here and below: not by the index on what is due, which is small only while the receiver is there.
    private static let delivered: PostgresStatement = """
        UPDATE webhook_messages SET state = 'delivered', settled_at = now(), last_at = now(), last_status = $3::int::smallint,
            last_error = NULL
        WHERE webhook = $1 AND id = $2 AND (state = 'pending') IS TRUE
        """
    /// Not for every delivery: the row would be written as often as all its messages.
    private static let succeeded: PostgresStatement = """
        UPDATE webhooks SET failing_since = NULL, last_success_at = now()
        WHERE id = $1 AND (failing_since IS NOT NULL OR last_success_at IS NULL OR last_success_at < now() - interval '10 seconds')
        """
    private static let failed: PostgresStatement = """
        UPDATE webhook_messages SET last_at = now(), last_status = $3::int::smallint, last_error = $4,
            state = CASE WHEN $5::float8 IS NULL THEN 'failed' ELSE 'pending' END,
            settled_at = CASE WHEN $5::float8 IS NULL THEN now() END,
            due_at = CASE WHEN $5::float8 IS NULL THEN due_at ELSE now() + make_interval(secs => $5) END
        WHERE webhook = $1 AND id = $2 AND (state = 'pending') IS TRUE
        """
    private static let noteFailure: PostgresStatement = """
        WITH noted AS (
            SELECT id, CASE WHEN $3 THEN 'gone' WHEN failing_since < now() - make_interval(days => $4) THEN 'failing' END AS reason
            FROM webhooks WHERE id = $1 AND disabled_reason IS NULL FOR NO KEY UPDATE
        )
        UPDATE webhooks w SET failing_since = coalesce(w.failing_since, now()), last_failure_at = now(), last_failure = $2,
            disabled_reason = n.reason, disabled_at = CASE WHEN n.reason IS NOT NULL THEN now() END
        FROM noted n WHERE w.id = n.id RETURNING w.disabled_reason
        """
    private static let disableOverfull: PostgresStatement = """
        UPDATE webhooks w SET disabled_reason = 'backlog_full', disabled_at = now()
        WHERE disabled_reason IS NULL AND (
            SELECT count(*) FROM (
                SELECT FROM webhook_messages m WHERE m.webhook = w.id AND m.state = 'pending' LIMIT $1 + 1
            ) AS waiting
        ) > $1 RETURNING id
        """
    private static let lag: PostgresStatement = """
        SELECT coalesce(max(extract(epoch FROM now() - oldest.due_at)), 0)::float8 FROM webhooks w CROSS JOIN LATERAL (
            SELECT m.due_at FROM webhook_messages m WHERE m.webhook = w.id AND m.state = 'pending' ORDER BY m.due_at LIMIT 1
        ) AS oldest WHERE w.disabled_reason IS NULL AND oldest.due_at < now()
        """
}
