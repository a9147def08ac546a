import Postgres
import PushModel

/// The SQL of a replay, within one transaction.
struct DeadLetterStore {
    struct Asked: Sendable {
        let id: PushID
        /// Nobody has reported an outcome: the broker gave the job up by itself.
        let isOrphan: Bool
    }

    struct Resolved: Sendable {
        var verdicts: [PushID: DeadLetterReplay.Verdict] = [:]
        /// What is to be published.
        var claimed: [OutboxStore.Claimed] = []
    }

    private let session: PostgresSession

    init(session: PostgresSession) { self.session = session }

    /// - Parameter asked: in ascending order of id, each once.
    func reopen(_ asked: [Asked], extending: Int64?) throws -> Resolved {
        let ids = asked.map(\.id)
        try session.execute(Self.lockDeliveries, [.ids(ids)])
        try session.execute(Self.lockNotifications, [.ids(ids)])
        var resolved = Resolved()
        var targets: Set<PushID> = []
        for row in try session.execute(Self.reopen, [.ids(ids), .ids(asked.filter(\.isOrphan).map(\.id)), .int64(extending ?? 0)]) {
            guard let verdict = DeadLetterReplay.Verdict(rawValue: try row.text(1)) else { throw CorruptRow(table: "deliveries") }
            resolved.verdicts[try row.id(0)] = verdict
            if verdict == .sent, let target = try row.optionalID(2) { targets.insert(target) }
        }
        guard !targets.isEmpty else { return resolved }
        var deliveries: [PushID: [PushJob.Delivery]] = [:]
        var attempts: [PushID: Int] = [:]
        for row in try session.execute(Self.selectDeliveries, [.ids(targets.sorted())]) {
            let notification = try row.id(6)
            deliveries[notification, default: []].append(try NotificationStore.delivery(row))
            attempts[notification] = max(attempts[notification] ?? 0, Int(try row.int32(7)))
        }
        resolved.claimed = try JobTemplate.load(deliveries.keys.sorted(), in: session).map { template in
            let id = template.notification
            return OutboxStore.Claimed(template: template, deliveries: deliveries[id] ?? [], earlierAttempts: attempts[id] ?? 0)
        }
        return resolved
    }
}

extension DeadLetterStore {
    private static let lockDeliveries: PostgresStatement =
        "SELECT count(*) FROM (SELECT id FROM deliveries WHERE id = ANY ($1::uuid[]) ORDER BY id FOR NO KEY UPDATE) AS locked"
    private static let lockNotifications: PostgresStatement = """
        SELECT count(*) FROM (
            SELECT id FROM notifications WHERE id IN (SELECT notification FROM deliveries WHERE id = ANY ($1::uuid[]))
            ORDER BY id FOR NO KEY UPDATE
        ) AS locked
        """

    /// Judges every delivery by what the registry says now, and reopens what may be sent; where the installation has another token meanwhile,
    /// the delivery to that one is opened instead. A reopened delivery is marked until its first attempt is reported, so that a
    /// replay that was broken off can be repeated. It keeps its attempts, and those to come are counted on from there, so that what is told
    /// once more of its earlier life is known by its number (``OutcomeStore``); one more where that may have ended with a try that does not
    /// count. Where a notification keeps counters, its receipt decides from now on.
    private static let reopen: PostgresStatement = """
        WITH found AS MATERIALIZED (
            SELECT d.id AS asked, d.notification, d.installation, d.owner_epoch, d.class, coalesce(d.status, 0) AS status,
                coalesce(d.reason, '') AS reason, n.receipts = 'failures' AS is_counted, n.app_id, n.state, n.expires_at,
                d.class IS NULL AND d.last_reason IS NOT DISTINCT FROM 'replayed' AS is_open,
                d.id = ANY ($2::uuid[]) AS is_orphan,
                i.id IS NOT NULL AND i.deregistered_at IS NULL AND i.owner_epoch = d.owner_epoch AS is_same_owner,
                t.id AS token_id, t.environment, t.unproven,
                CASE WHEN t.id = d.token_id THEN d.id ELSE delivery_id(d.notification, t.id) END AS target
            FROM deliveries d JOIN notifications n ON n.id = d.notification
            LEFT JOIN installations i ON i.app_id = n.app_id AND i.id = d.installation
            LEFT JOIN LATERAL (
                SELECT live.id, live.environment, live.proven_at IS NULL AS unproven
                FROM tokens old JOIN tokens live ON live.app_id = old.app_id AND live.ordinal = i.ordinal
                    AND live.purpose = old.purpose AND live.environment = old.environment AND live.state = 'active'
                WHERE old.id = d.token_id
            ) AS t ON true
            WHERE d.id = ANY ($1::uuid[])
        ), judged AS MATERIALIZED (
            SELECT f.*, x.id IS NOT NULL AS exists, CASE
                WHEN f.state = 'cancelled' THEN 'cancelled'
                WHEN f.class IS NULL AND NOT f.is_open AND NOT f.is_orphan THEN 'undecided'
                WHEN f.class NOT IN ('failed', 'unknown', 'expired') THEN 'settled'
                WHEN NOT f.is_same_owner THEN 'fenced'
                WHEN f.token_id IS NULL THEN 'token_gone'
                WHEN x.id IS NOT NULL AND x.id <> f.asked
                    AND NOT (x.class IS NULL AND x.last_reason IS NOT DISTINCT FROM 'replayed') THEN 'settled'
                WHEN f.expires_at <= now() AND $3::bigint = 0 THEN 'expired'
                ELSE 'sent' END AS verdict
            FROM found f LEFT JOIN deliveries x ON x.notification = f.notification AND x.token_id = f.token_id
        ), reopened AS (
            UPDATE deliveries d SET class = NULL, status = NULL, reason = NULL,
                attempts = d.attempts + (NOT j.is_open AND coalesce(j.class, '') NOT IN ('failed', 'unknown'))::int,
                last_class = NULL, last_status = NULL, last_reason = 'replayed', is_replayed = true, last_at = NULL, retry_at = NULL,
                environment = j.environment, unproven = j.unproven, updated_at = now()
            FROM judged j WHERE j.verdict = 'sent' AND j.target = j.asked AND d.id = j.asked
        ), added AS (
            INSERT INTO deliveries (id, notification, token_id, installation, owner_epoch, environment, unproven, last_reason, is_replayed,
                updated_at)
            SELECT DISTINCT ON (target) target, notification, token_id, installation, owner_epoch, environment, unproven, 'replayed', true, now()
            FROM judged WHERE verdict = 'sent' AND NOT exists
            ORDER BY target RETURNING notification
        ), uncounted AS (
            UPDATE notification_counts c SET count = c.count - e.count
            FROM (
                SELECT notification, class, status, reason, count(*) AS count FROM judged
                WHERE verdict = 'sent' AND target = asked AND class IS NOT NULL AND is_counted GROUP BY 1, 2, 3, 4
            ) AS e
            WHERE c.notification = e.notification AND c.class = e.class AND c.status = e.status AND c.reason = e.reason
        ), counted AS (
            SELECT notification, sum(again)::int AS again, sum(more)::int AS more FROM (
                SELECT notification, (class IS NOT NULL AND target = asked)::int AS again, 0 AS more FROM judged WHERE verdict = 'sent'
                UNION ALL SELECT notification, 0, 1 FROM added
            ) AS each GROUP BY notification
        ), changed AS (
            UPDATE notifications n SET total = n.total + c.more, pending = n.pending + c.again + c.more,
                state = CASE WHEN n.state IN ('completed', 'expired') THEN 'sending' ELSE n.state END, completed_at = NULL,
                expires_at = CASE WHEN n.expires_at > now() THEN n.expires_at ELSE now() + make_interval(secs => $3) END,
                apns_expiration = CASE WHEN n.expires_at > now() OR coalesce(n.apns_expiration, 0) = 0 THEN n.apns_expiration
                    ELSE extract(epoch FROM now())::bigint + $3 END
            FROM counted c WHERE n.id = c.notification
        )
        SELECT asked, verdict, target FROM judged
        """
    private static let selectDeliveries: PostgresStatement = """
        SELECT d.id, t.token, d.environment, d.installation, d.owner_epoch, d.unproven AND cardinality(a.environments) > 1, d.notification,
            d.attempts
        FROM deliveries d JOIN tokens t ON t.id = d.token_id JOIN apps a ON a.id = t.app_id
        WHERE d.id = ANY ($1::uuid[]) ORDER BY d.notification, d.token_id
        """
}
