import Postgres
import PushModel
import TokenServiceKit
import TokenServiceRegistry
import TokenServiceSending

/// One transaction of a replay: it reads under locks, and writes the result of ``ReplayDecision``.
/// It works for every app: the letters are the operator's, and what hangs on a delivery is compared with its notification's app.
struct DeadLetterStore {
    struct Resolved: Sendable {
        var dispositions: [PushID: DeadLetterReplay.Disposition] = [:]
        /// Deliveries that had no outcome, are not sent and get one of our outcomes.
        var stopped: Set<PushID> = []
        /// The delivery that is published for a letter's: itself, or its substitute.
        var published: [PushID: PushID] = [:]
        /// The jobs and the outcomes to publish.
        var claimed: [JobPublisher.Reopened] = []

        /// The deliveries whose messages have to be confirmed for a letter's. One whose token was replaced has two: its own end, and the
        /// job of the one that is sent instead.
        func messages(of delivery: PushID) -> Set<PushID> {
            let sent = published[delivery] ?? delivery
            return stopped.contains(delivery) ? [sent, delivery] : [sent]
        }
    }

    /// A delivery that is published: the letter's, or its substitute to another token.
    struct Sent {
        var delivery: PushJob.Delivery
        let facts: ReplayFacts
        let decision: ReplayDecision

        var notification: PushID { facts.delivery.notification }
    }

    let session: PostgresSession

    /// - Parameter deliveries: The deliveries in ascending order of id, each once.
    func reopen(_ deliveries: [DeadDelivery], extending seconds: Int64?) throws -> Resolved {
        try holdErasures(of: Set(deliveries.map(\.notification)))
        var resolved = Resolved()
        var stops: [ReplayDecision.Stop] = []
        var sent: [PushID: Sent] = [:]
        var unplaced: [PushID: [Int64: Sent]] = [:]
        var substituted: [(delivery: PushID, notification: PushID, token: Int64)] = []
        for facts in try read(deliveries) {
            let decision = ReplayDecision(facts, extending: seconds)
            resolved.dispositions[facts.delivery.id] = decision.disposition
            if let stop = decision.stop { stops.append(stop) }
            guard let target = decision.target, let delivery = facts.live, let token = facts.liveToken else { continue }
            var one = Sent(delivery: delivery, facts: facts, decision: decision)
            // Two deliveries of an installation may share one substitute, and that one may have a letter, too.
            switch target {
            case .itself:
                one.delivery.earlierOutcome = facts.delivery.earlier
                sent[delivery.id] = one
                resolved.published[facts.delivery.id] = delivery.id
            case .opened(let id):
                one.delivery.id = id
                sent[id] = sent[id] ?? one
                resolved.published[facts.delivery.id] = id
            case .new:
                unplaced[one.notification, default: [:]][token] = one
                substituted.append((facts.delivery.id, one.notification, token))
            }
        }
        var substitutes: [PushID: [Int64: PushID]] = [:]
        for (notification, tokens) in unplaced {
            let names = DeliveryNames(notification)
            // A place belongs to one token for ever, so substitutes get jobs of their own: one for each old job, whose payload they share.
            for (index, members) in Dictionary(grouping: tokens.values, by: \.facts.delivery.job).values.enumerated() {
                for (position, var one) in members.enumerated() {
                    one.delivery.id = names.id(job: one.facts.jobs + index, position: position)
                    sent[one.delivery.id] = one
                    if let token = one.facts.liveToken { substitutes[notification, default: [:]][token] = one.delivery.id }
                }
            }
        }
        for (delivery, notification, token) in substituted { resolved.published[delivery] = substitutes[notification]?[token] }
        let inOrder = sent.values.sorted { $0.delivery.id < $1.delivery.id }
        try write(inOrder, extending: seconds ?? 0)
        resolved.stopped = Set(stops.map(\.delivery.id))
        resolved.claimed = try messages(inOrder, stops)
        return resolved
    }

    /// A replay reads tokens and writes receipts, like an outcome.
    private func holdErasures(of notifications: Set<PushID>) throws {
        let apps: [Int64] = try session.execute(
            "SELECT DISTINCT n.app_id FROM unnest(\(notifications.sorted())::uuid[]) AS e (id) JOIN notifications n ON n.id = e.id"
        ).column("app_id")
        try session.execute(ErasureBarrier.hold(Set(apps)))
    }

    /// Deliveries of one notification that have one end and one payload share messages.
    private struct Group: Hashable {
        let end: Int64?
        let locale: String
        /// 0 if the payload does not name it.
        let job: Int
    }

    private func messages(_ sent: [Sent], _ stops: [ReplayDecision.Stop]) throws -> [JobPublisher.Reopened] {
        let sent = Dictionary(grouping: sent, by: \.notification)
        let stops = Dictionary(grouping: stops, by: \.delivery.notification)
        let notifications = Set(sent.keys).union(stops.keys).sorted()
        var payloads: [PushID: [String: [UInt8]]] = [:]
        for row in try session.execute(JobStore.variants(of: notifications)) {
            let locale: String = try row["locale"]
            payloads[try row["notification"], default: [:]][locale] = try row["payload"]
        }
        return try JobTemplate.load(notifications, in: session).flatMap { template in
            let id = template.notification
            let groups = Dictionary(grouping: sent[id] ?? []) { one in
                let job = template.deviceReceipts ? DeliveryNames.place(of: one.delivery.id).job : 0
                return Group(end: one.decision.end, locale: one.facts.locale, job: job)
            }
            var reopened = groups.map { group, sent in
                var template = template
                if let end = group.end { template.end(end) }
                if let payload = payloads[id]?[group.locale] { template.payload = payload }
                return JobPublisher.Reopened(
                    template: template, job: group.job, deliveries: sent.map(\.delivery),
                    earlierAttempts: sent.map(\.decision.attempts).max() ?? 0)
            }
            if let stops = stops[id] {
                reopened.append(JobPublisher.Reopened(template: template, deliveries: [], stopped: Self.events(stops, of: template.app)))
            }
            return reopened
        }
    }

    private static func events(_ stops: [ReplayDecision.Stop], of app: AppSlug) -> [OutcomeEvent] {
        let now = UnixTime.milliseconds()
        let groups = Dictionary(grouping: stops, by: \.outcome).sorted { $0.key.rawValue < $1.key.rawValue }
        return groups.flatMap { outcome, stops in
            stride(from: 0, to: stops.count, by: OutcomeEvent.maximumDeliveries).map { start in
                OutcomeEvent.stopped(
                    stops[start..<min(start + OutcomeEvent.maximumDeliveries, stops.count)].map(\.delivery), as: outcome, of: app, at: now)
            }
        }
    }
}

extension DeadLetterStore {
    /// Locks Live Activities, jobs, receipts and notifications, each in ascending order of its key, as outcomes do. The registry is
    /// not locked: if an owner leaves meanwhile, the fence stops the delivery.
    /// - Returns: The facts in the order of the deliveries, without those whose notification was removed.
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
            SELECT e.index, now(), m.token AS token_id, j.locale, get_bit(j.ended, e.position::int) = 1 AS has_ended,
                r.class, coalesce(r.attempts, 0) AS attempts, coalesce(r.is_replayed, false) AS is_replayed,
                coalesce(r.is_open, false) AS is_open,
                -- It or what it is a copy of was cancelled, or a newer state of the same Live Activity was accepted. A broadcast does not
                -- go again: its backend sends a newer one.
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
            UPDATE jobs j SET ended = j.ended | m.mask
            FROM (
                SELECT notification, number, bit_or(set_bit(B'0'::bit(100), position::int, 1)) AS mask
                FROM unnest(\(notifications(marked))::uuid[], \(numbers(marked))::bigint[], \(positions(marked))::bigint[])
                    AS e (notification, number, position)
                GROUP BY notification, number
            ) AS m
            WHERE j.notification = m.notification AND j.number = m.number AND j.ended | m.mask <> j.ended
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
            hasEnded: try row["has_ended"], outcome: try row["class"], attempts: try row["attempts"],
            isReplayed: try row["is_replayed"], isOpen: try row["is_open"], isCancelled: try row["is_cancelled"],
            expiresAt: try row.milliseconds("expires_at"), hasOwnEnds: try row["has_own_ends"], jobs: try row["jobs"],
            ownerEpoch: try row["owner_epoch"], liveToken: try row["live_id"])
        if liveToken != nil { live = try NotificationStore.delivery(row, id: delivery.id) }
        let other: PushID? = try row["other"]
        self.other = try other.map { Receipt(delivery: $0, attempts: try row["other_attempts"], isOpen: try row["is_other_open"]) }
    }
}
