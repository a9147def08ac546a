import Postgres
import PushModel
import TokenServiceKit
import TokenServiceSending

extension DeadLetterStore {
    /// Locks Live Activities, jobs, receipts and notifications, each in ascending order of its key, as outcomes do. The registry is
    /// not locked: if an owner leaves meanwhile, the fence stops the delivery.
    /// - Returns: in the order of the deliveries, without those whose notification was removed.
    func read(_ deliveries: [DeadDelivery]) throws -> [ReplayFacts] {
        let ids = deliveries.map(\.notification)
        let (numbers, positions) = (deliveries.map(\.job.number), deliveries.map(\.position))
        let notifications = Set(ids).sorted()
        let lock = RowLock(
            """
            SELECT FROM unnest(\(notifications)::uuid[]) AS e (id) JOIN notifications n ON n.id = e.id
            JOIN activities a ON a.app_id = n.app_id AND a.owned_by = activity_owner(n.target_user, n.target_installation)
                AND n.purpose LIKE 'activity:%' AND a.id = substr(n.purpose, 10)
            ORDER BY a.app_id, a.owned_by, a.id FOR NO KEY UPDATE OF a
            """,
            """
            SELECT FROM unnest(\(ids)::uuid[], \(numbers)::bigint[]) AS e (notification, number)
            JOIN jobs j ON j.notification = e.notification AND j.number = e.number
            ORDER BY j.notification, j.number FOR NO KEY UPDATE OF j
            """,
            """
            SELECT FROM unnest(\(ids)::uuid[], \(numbers)::bigint[], \(positions)::bigint[]) AS e (notification, number, position)
            JOIN receipts r ON r.notification = e.notification AND r.number = e.number AND r.position = e.position
            ORDER BY r.notification, r.number, r.position FOR NO KEY UPDATE OF r
            """,
            """
            SELECT FROM unnest(\(notifications)::uuid[]) AS e (id) JOIN notifications n ON n.id = e.id ORDER BY n.id FOR NO KEY UPDATE OF n
            """)
        return try session.execute(
            """
            WITH known AS NOT MATERIALIZED (
                SELECT *, class IS NULL AND last_reason IS NOT DISTINCT FROM 'replayed' AS is_open FROM receipts
            )
            SELECT e.index, now(), m.token AS token_id, j.locale, get_bit(j.settled, e.position::int) = 1 AS is_settled,
                r.class, coalesce(r.attempts, 0) AS attempts, coalesce(r.is_replayed, false) AS is_replayed,
                coalesce(r.is_open, false) AS is_open,
                -- It or what it is a copy of was cancelled, or a newer state of the same Live Activity was accepted. A broadcast does not go
                -- again: its backend sends a newer one.
                n.state = 'cancelled'
                    OR (SELECT c.reason FROM cancellations c WHERE c.notification = n.copy_of) IS NOT DISTINCT FROM 'cancelled'
                    OR n.purpose LIKE 'channel:%' OR n.purpose LIKE 'activity:%' AND EXISTS (
                    SELECT FROM activities x
                    WHERE x.app_id = n.app_id AND x.owned_by = activity_owner(n.target_user, n.target_installation)
                        AND x.id = substr(n.purpose, 10) AND x.newest <> n.id) AS is_cancelled, n.expires_at,
                f.lifetime_ms IS NOT NULL AS has_own_ends, n.jobs, e.installation, i.owner_epoch, live.id AS live_id, live.token,
                live.environment, live.proven_at IS NULL AND cardinality(a.environments) > 1 AS may_try,
                delivery_id(o.notification, o.number, o.position) AS other, o.attempts AS other_attempts, o.is_open AS is_other_open
            FROM unnest(\(Array(ids.indices))::bigint[], \(ids)::uuid[], \(numbers)::bigint[], \(positions)::bigint[],
                    \(deliveries.map(\.installation))::uuid[])
                AS e (index, notification, number, position, installation)
            JOIN notifications n ON n.id = e.notification LEFT JOIN fan_outs f ON f.notification = n.id
            JOIN apps a ON a.id = n.app_id
            JOIN jobs j ON j.notification = e.notification AND j.number = e.number
            JOIN LATERAL member_at(j.members, e.position::int) AS m (token) ON m.token IS NOT NULL
            LEFT JOIN known r ON r.notification = e.notification AND r.number = e.number AND r.position = e.position
            LEFT JOIN installations i ON i.app_id = n.app_id AND i.id = e.installation AND i.deregistered_at IS NULL
            LEFT JOIN tokens old ON old.id = m.token
            LEFT JOIN LATERAL (
                -- An active one before a doubtful one.
                SELECT * FROM tokens t WHERE t.app_id = n.app_id AND t.installation = i.id
                    AND (t.purpose = old.purpose AND t.environment = old.environment AND t.state <> 'retired') IS TRUE
                ORDER BY t.state LIMIT 1
            ) AS live ON true
            LEFT JOIN LATERAL (
                SELECT * FROM known k
                WHERE k.installation = e.installation AND k.notification = e.notification AND k.token_id = live.id AND live.id <> m.token
                ORDER BY k.is_open LIMIT 1
            ) AS o ON true
            ORDER BY e.index
            """, under: lock
        ).map { row in try ReplayFacts(row, of: deliveries) }
    }

    /// Marks the receipt of a reopened delivery until an attempt is reported, so that a replay that was broken off can be repeated. From
    /// now on the receipt decides: the bit in the job is set, so that outcomes do not end the delivery there. A new job counts as
    /// published, because the letter stays until its message is confirmed.
    func write(_ sent: [Sent], extending seconds: Int64) throws {
        guard !sent.isEmpty else { return }
        let reopened = sent.filter { $0.decision.target == .itself }
        let new = sent.filter { $0.decision.target == .new }
        func notifications(_ sent: [Sent]) -> [PushID] { sent.map(\.notification) }
        func numbers(_ sent: [Sent]) -> [Int] { sent.map { DeliveryNames.place(of: $0.delivery.id).job } }
        func positions(_ sent: [Sent]) -> [Int] { sent.map { DeliveryNames.place(of: $0.delivery.id).position } }
        let marked = reopened + new
        try session.pipeline([
            """
            UPDATE activities a SET sending = n.id, is_retrying = false
            FROM unnest(\(notifications(marked))::uuid[]) AS e (id) JOIN notifications n ON n.id = e.id
            WHERE a.app_id = n.app_id AND a.owned_by = activity_owner(n.target_user, n.target_installation)
                AND a.id = substr(n.purpose, 10) AND a.newest = n.id AND n.purpose LIKE 'activity:%'
            """,
            """
            INSERT INTO jobs (notification, number, app_id, lane, locale, due_at, members, sandbox, free_from, published_at)
            SELECT n.id, e.number, n.app_id, n.lane, min(e.locale), now(), string_agg(int8send(e.token), '' ORDER BY e.position),
                coalesce(bit_or(set_bit(B'0'::bit(100), e.position::int, 1)) FILTER (WHERE e.environment = 'sandbox'), B'0'::bit(100)),
                now(), now()
            FROM unnest(\(notifications(new))::uuid[], \(numbers(new))::bigint[], \(positions(new))::bigint[],
                    \(new.map(\.facts.liveToken))::bigint[], \(new.map(\.facts.locale))::text[],
                    \(new.map(\.delivery.environment.rawValue))::text[])
                AS e (notification, number, position, token, locale, environment)
            JOIN notifications n ON n.id = e.notification GROUP BY n.id, e.number
            """,
            """
            UPDATE jobs j SET settled = j.settled | m.mask
            FROM (
                SELECT notification, number, bit_or(set_bit(B'0'::bit(100), position::int, 1)) AS mask
                FROM unnest(\(notifications(marked))::uuid[], \(numbers(marked))::bigint[], \(positions(marked))::bigint[])
                    AS e (notification, number, position)
                GROUP BY notification, number
            ) AS m
            WHERE j.notification = m.notification AND j.number = m.number AND j.settled | m.mask <> j.settled
            """,
            // Before the receipts forget how the deliveries ended.
            """
            UPDATE notifications n SET outcomes = with_outcomes(n.outcomes, e.taken_back)
            FROM (
                SELECT r.notification, array_agg(ROW(r.class, r.status, r.reason, -1)::outcome_count) AS taken_back
                FROM unnest(\(notifications(reopened))::uuid[], \(numbers(reopened))::bigint[], \(positions(reopened))::bigint[])
                    AS e (notification, number, position)
                JOIN receipts r ON r.notification = e.notification AND r.number = e.number AND r.position = e.position
                WHERE r.class IS NOT NULL GROUP BY r.notification
            ) AS e
            WHERE n.id = e.notification
            """,
            """
            INSERT INTO receipts (notification, number, position, token_id, installation, owner_epoch, environment, attempts,
                last_reason, is_replayed, updated_at)
            SELECT e.*, 'replayed', true, now()
            FROM unnest(\(notifications(marked))::uuid[], \(numbers(marked))::bigint[], \(positions(marked))::bigint[],
                    \(marked.map(\.facts.liveToken))::bigint[], \(marked.map(\.delivery.installation))::uuid[],
                    \(marked.map(\.delivery.ownerEpoch))::bigint[], \(marked.map(\.delivery.environment.rawValue))::text[],
                    \(marked.map(\.decision.attempts))::bigint[]) AS e
            ON CONFLICT (notification, number, position) DO UPDATE SET class = NULL, status = NULL, reason = NULL,
                environment = excluded.environment, attempts = excluded.attempts, last_class = NULL, last_status = NULL,
                last_reason = excluded.last_reason, last_at = NULL, retry_at = NULL, is_replayed = true, updated_at = now()
            """,
            """
            UPDATE notifications n SET total = n.total + e.new, pending = n.pending + e.new + e.again, jobs = greatest(n.jobs, e.jobs),
                state = CASE WHEN n.state IN ('completed', 'expired') THEN 'sending' ELSE n.state END, completed_at = NULL,
                expires_at = CASE WHEN n.expires_at > now() THEN n.expires_at ELSE now() + make_interval(secs => \(seconds)) END,
                apns_expiration = CASE WHEN n.expires_at > now() OR coalesce(n.apns_expiration, 0) = 0 THEN n.apns_expiration
                    ELSE extract(epoch FROM now())::bigint + \(seconds) END
            FROM (
                SELECT notification, count(*) FILTER (WHERE is_new) AS new, count(*) FILTER (WHERE is_again) AS again,
                    max(number + 1) FILTER (WHERE is_new) AS jobs
                FROM unnest(\(notifications(sent))::uuid[], \(numbers(sent))::bigint[], \(sent.map { $0.decision.target == .new })::bool[],
                        \(sent.map { $0.decision.target == .itself && $0.facts.outcome != nil })::bool[])
                    AS e (notification, number, is_new, is_again)
                GROUP BY notification
            ) AS e
            WHERE n.id = e.notification
            """,
        ])
    }
}

extension ReplayFacts {
    fileprivate init(_ row: PostgresRow, of deliveries: [DeadDelivery]) throws {
        let index: Int = try row["index"]
        let delivery = deliveries[index]
        self.init(
            delivery: delivery, now: try row.milliseconds("now"), token: try row["token_id"], locale: try row["locale"],
            isSettled: try row["is_settled"], outcome: try row["class"], attempts: try row["attempts"],
            isReplayed: try row["is_replayed"], isOpen: try row["is_open"], isCancelled: try row["is_cancelled"],
            expiresAt: try row.milliseconds("expires_at"), hasOwnEnds: try row["has_own_ends"], jobs: try row["jobs"],
            ownerEpoch: try row["owner_epoch"], liveToken: try row["live_id"])
        if liveToken != nil { live = try NotificationStore.delivery(row, id: delivery.id) }
        let other: PushID? = try row["other"]
        self.other = try other.map { Receipt(delivery: $0, attempts: try row["other_attempts"], isOpen: try row["is_other_open"]) }
    }
}
