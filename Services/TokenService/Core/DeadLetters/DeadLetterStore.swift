import Postgres
import PushModel

/// The SQL of a replay, within one transaction.
struct DeadLetterStore {
    struct Asked: Sendable {
        let id: PushID
        /// Nobody has reported an outcome: the broker gave the job up by itself.
        let isOrphan: Bool
        let notification: PushID
        let installation: PushID
        /// Whom its job was for.
        let ownerEpoch: Int64
        /// That its job had behind it.
        let attempts: Int
        /// What they came to.
        let earlier: PushJob.EarlierOutcome
        /// Of its job, UNIX milliseconds. With a local time, that of the notification is the last zone's.
        let expiresAt: Int64
        /// In its notification's chunks; nil where its id names none.
        let place: (chunk: Int, position: Int)?
    }

    struct Resolved: Sendable {
        var verdicts: [PushID: DeadLetterReplay.Verdict] = [:]
        /// What had no outcome, is not sent and gets one of ours.
        var stopped: Set<PushID> = []
        /// What is to be published.
        var claimed: [OutboxStore.Claimed] = []
    }

    /// A delivery that is over without having been sent.
    private struct Stop {
        let delivery: OutcomeEvent.Delivery
        let outcome: OutcomeClass

        /// - Parameter attempts: Those that were told of it. Its end bears the next number, so that it also ends a second life.
        init(
            _ id: PushID, of notification: PushID, to installation: PushID, attempts: Int, earlier: PushJob.EarlierOutcome,
            because verdict: DeadLetterReplay.Verdict
        ) {
            let stopped: OutcomeClass = verdict == .cancelled ? .cancelled : verdict == .expired ? .expired : .fenced
            outcome = stopped.after(earlier)
            // As a dispatcher, which gives no reason where the class says it; but what is sent instead goes to another token.
            let isOwn = [.cancelled, .expired, .fenced].contains(verdict)
            let reason = isOwn ? (outcome == stopped ? nil : stopped.rawValue) : "token_retired"
            delivery = OutcomeEvent.Delivery(
                id: id, notification: notification, installation: installation, attempt: attempts + 1, reason: reason)
        }
    }

    private let session: PostgresSession

    init(session: PostgresSession) { self.session = session }

    /// - Parameter asked: in ascending order of id, each once.
    func reopen(_ asked: [Asked], extending: Int64?) throws -> Resolved {
        let ids = asked.map(\.id)
        // As where outcomes are applied: what is kept in a chunk alone gets its receipt before any row is locked.
        let made = try makeReceipts(asked.filter { $0.isOrphan && $0.place != nil })
        try session.execute(Self.lockDeliveries, [.ids(ids)])
        let chunks = Set(asked.compactMap { asked in asked.place.map { ChunkID(notification: asked.notification, number: $0.chunk) } })
        if !chunks.isEmpty { try session.execute(Self.lockChunks, ChunkID.columns(Array(chunks))) }
        try session.execute(Self.lockNotifications, [.ids(ids)])
        var resolved = Resolved()
        var targets: [PushID: Int64?] = [:]
        var stops: [Stop] = []
        let earlier = asked.reduce(into: [PushID: PushJob.EarlierOutcome]()) { if $1.earlier != .none { $0[$1.id] = $1.earlier } }
        for row in try session.execute(Self.reopen, Self.columns(asked) + [.int64(extending ?? 0)]) {
            guard let verdict = DeadLetterReplay.Verdict(rawValue: try row.text(1)) else { throw CorruptRow(table: "deliveries") }
            let id = try row.id(0)
            resolved.verdicts[id] = verdict
            if verdict == .sent, let target = try row.optionalID(2) { targets[target] = try row.optionalTimestampMilliseconds(7) }
            if try row.bool(6) {
                stops.append(
                    Stop(
                        id, of: try row.id(3), to: try row.id(4), attempts: Int(try row.int32(5)), earlier: earlier[id] ?? .none,
                        because: verdict))
            }
        }
        if !made.isEmpty { try session.execute(Self.removeReceipts, [.ids(made)]) }
        stops += try judgePlaces(asked.filter { $0.place != nil && resolved.verdicts[$0.id] == nil }, &resolved)
        resolved.stopped = Set(stops.map(\.delivery.id))
        resolved.claimed = try claim(targets, stops, earlier)
        return resolved
    }

    /// Of orphans that have neither an outcome nor a receipt.
    private func makeReceipts(_ asked: [Asked]) throws -> [PushID] {
        guard !asked.isEmpty else { return [] }
        return try session.execute(
            Self.makeReceipts,
            Self.places(asked) + [
                .ids(asked.map(\.installation)), .int64Array(asked.map(\.ownerEpoch)),
                .int32Array(asked.map { Int32(clamping: $0.attempts) }),
            ]
        ).map { row in try row.id(0) }
    }

    /// What has no receipt: its chunk tells whether it has its outcome. An orphan that could not get a receipt has no token any more.
    private func judgePlaces(_ asked: [Asked], _ resolved: inout Resolved) throws -> [Stop] {
        guard !asked.isEmpty else { return [] }
        var settled: [PushID: Bool] = [:]
        for row in try session.execute(Self.selectPlaces, Self.places(asked)) { settled[try row.id(0)] = try row.bool(1) }
        var stops: [Stop] = []
        for asked in asked {
            guard let isSettled = settled[asked.id] else { continue }
            resolved.verdicts[asked.id] = isSettled ? .settled : asked.isOrphan ? .tokenGone : .undecided
            if !isSettled, asked.isOrphan {
                stops.append(
                    Stop(
                        asked.id, of: asked.notification, to: asked.installation, attempts: 0, earlier: asked.earlier, because: .tokenGone))
            }
        }
        return stops
    }

    /// Deliveries of one notification that have one end.
    private struct Group: Hashable {
        let notification: PushID
        /// UNIX milliseconds; nil for the notification's own.
        let end: Int64?
    }

    /// - Parameters:
    ///   - targets: With the end of each, where that is another than its notification's.
    ///   - earlier: What the attempts of each came to. A delivery to a token that is new has none.
    private func claim(
        _ targets: [PushID: Int64?], _ stops: [Stop], _ earlier: [PushID: PushJob.EarlierOutcome]
    ) throws -> [OutboxStore.Claimed] {
        guard !targets.isEmpty || !stops.isEmpty else { return [] }
        var deliveries: [Group: [PushJob.Delivery]] = [:]
        var attempts: [Group: Int] = [:]
        for row in try session.execute(Self.selectDeliveries, [.ids(targets.keys.sorted())]) {
            var delivery = try NotificationStore.delivery(row)
            delivery.earlierOutcome = earlier[delivery.id] ?? .none
            let group = Group(notification: try row.id(6), end: targets[delivery.id] ?? nil)
            deliveries[group, default: []].append(delivery)
            attempts[group] = max(attempts[group] ?? 0, Int(try row.int32(7)))
        }
        let stopped = Dictionary(grouping: stops, by: \.delivery.notification)
        let groups = Dictionary(grouping: deliveries.keys, by: \.notification)
        return try JobTemplate.load(Set(groups.keys).union(stopped.keys).sorted(), in: session).flatMap { template in
            let id = template.notification
            var claimed = (groups[id] ?? []).map { group in
                var template = template
                if let end = group.end { template.end(end) }
                return OutboxStore.Claimed(
                    template: template, deliveries: deliveries[group] ?? [], earlierAttempts: attempts[group] ?? 0)
            }
            if let stops = stopped[id] {
                claimed.append(OutboxStore.Claimed(template: template, deliveries: [], stopped: Self.events(stops, of: template.app)))
            }
            return claimed
        }
    }

    private static func events(_ stops: [Stop], of app: AppSlug) -> [OutcomeEvent] {
        let now = UnixTime.milliseconds()
        let groups = Dictionary(grouping: stops, by: \.outcome).sorted { $0.key.rawValue < $1.key.rawValue }
        return groups.flatMap { outcome, stops in
            stride(from: 0, to: stops.count, by: OutcomeEvent.maximumDeliveries).map { start in
                OutcomeEvent.stopped(
                    stops[start..<min(start + OutcomeEvent.maximumDeliveries, stops.count)].map(\.delivery), as: outcome, of: app, at: now)
            }
        }
    }

    private static func columns(_ asked: [Asked]) -> [PostgresValue] {
        [
            .ids(asked.map(\.id)), .boolArray(asked.map(\.isOrphan)), .int64Array(asked.map(\.ownerEpoch)),
            .optionalInt32Array(asked.map { $0.place.map { Int32(clamping: $0.chunk) } }),
            .optionalInt32Array(asked.map { $0.place.map { Int32(clamping: $0.position) } }),
            .int32Array(asked.map { Int32(clamping: $0.attempts) }), .timestampArray(asked.map(\.expiresAt)),
        ]
    }

    /// - Parameter asked: All of them have a place.
    private static func places(_ asked: [Asked]) -> [PostgresValue] {
        [
            .ids(asked.map(\.id)), .ids(asked.map(\.notification)), .int32Array(asked.map { Int32(clamping: $0.place?.chunk ?? 0) }),
            .int32Array(asked.map { Int32(clamping: $0.place?.position ?? 0) }),
        ]
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
    private static let lockChunks: PostgresStatement = """
        SELECT count(*) FROM (
            SELECT FROM unnest($1::uuid[], $2::int[]) AS e (notification, number)
            JOIN chunks c ON c.notification = e.notification AND c.number = e.number
            ORDER BY c.notification, c.number FOR NO KEY UPDATE OF c
        ) AS locked
        """
    private static let makeReceipts: PostgresStatement = """
        INSERT INTO deliveries (id, notification, token_id, installation, owner_epoch, environment, unproven, attempts, updated_at)
        SELECT e.id, e.notification, m.token, e.installation, e.owner_epoch, t.environment, t.proven_at IS NULL, e.attempts, now()
        FROM unnest($1::uuid[], $2::uuid[], $3::int[], $4::int[], $5::uuid[], $6::bigint[], $7::int[])
            AS e (id, notification, number, position, installation, owner_epoch, attempts)
        JOIN notifications n ON n.id = e.notification AND n.receipts = 'failures'
        JOIN chunks c ON c.notification = e.notification AND c.number = e.number
        CROSS JOIN LATERAL (
            SELECT ('x' || encode(substring(c.members FROM e.position * 8 + 1 FOR 8), 'hex'))::bit(64)::bigint AS token
            WHERE octet_length(c.members) >= e.position * 8 + 8 AND get_bit(c.settled, e.position) = 0
        ) AS m
        JOIN tokens t ON t.id = m.token
        ORDER BY e.id ON CONFLICT DO NOTHING RETURNING id
        """
    /// What was not reopened after all is kept in its chunk alone, as before.
    private static let removeReceipts: PostgresStatement =
        "DELETE FROM deliveries WHERE id = ANY ($1::uuid[]) AND class IS NULL AND NOT is_replayed"
    private static let selectPlaces: PostgresStatement = """
        SELECT e.id, get_bit(c.settled, e.position) = 1
        FROM unnest($1::uuid[], $2::uuid[], $3::int[], $4::int[]) AS e (id, notification, number, position)
        JOIN notifications n ON n.id = e.notification AND n.receipts = 'failures'
        JOIN chunks c ON c.notification = e.notification AND c.number = e.number
        WHERE octet_length(c.members) >= e.position * 8 + 8
        """

    /// Judges every delivery by what the registry says now, and reopens what may be sent; where the installation has another token meanwhile,
    /// the delivery to that one is opened instead. A reopened delivery is marked until its first attempt is reported, so that a
    /// replay that was broken off can be repeated. It keeps its attempts, and those to come are counted on from there, so that what is told
    /// once more of its earlier life is known by its number (``OutcomeStore``); one more where that may have ended with a try that does not
    /// count. Where a notification keeps counters, its receipt decides from now on: its bit is set, so that the chunk counts it no more.
    private static let reopen: PostgresStatement = """
        WITH found AS MATERIALIZED (
            SELECT d.id AS asked, d.notification, d.installation, d.owner_epoch, d.class, coalesce(d.status, 0) AS status,
                -- Of an orphan, some may not have been applied yet.
                greatest(d.attempts, a.attempts) AS attempts,
                coalesce(d.reason, '') AS reason, n.receipts = 'failures' AS is_counted, n.app_id, n.state,
                CASE WHEN n.lifetime_ms IS NULL THEN n.expires_at ELSE least(n.expires_at, a.expires_at) END AS expires_at,
                CASE WHEN n.lifetime_ms IS NOT NULL THEN greatest(a.expires_at, now() + make_interval(secs => $8::bigint)) END AS own_end,
                d.class IS NULL AND d.last_reason IS NOT DISTINCT FROM 'replayed' AS is_open, a.is_orphan, a.number, a.position,
                -- Accepted while its receipt was being made here.
                d.class IS NULL AND NOT d.is_replayed AND n.receipts = 'failures' AND coalesce(get_bit(c.settled, a.position) = 1, false)
                    AS is_settled,
                i.id IS NOT NULL AND i.deregistered_at IS NULL AND i.owner_epoch = d.owner_epoch
                    -- A receipt that was made of a failure names the owner of that moment.
                    AND i.owner_epoch = a.owner_epoch AS is_same_owner,
                t.id AS token_id, t.environment, t.unproven,
                CASE WHEN t.id = d.token_id THEN d.id ELSE delivery_id(d.notification, t.id) END AS target
            FROM deliveries d JOIN notifications n ON n.id = d.notification
            JOIN unnest($1::uuid[], $2::bool[], $3::bigint[], $4::int[], $5::int[], $6::int[], $7::timestamptz[])
                AS a (id, is_orphan, owner_epoch, number, position, attempts, expires_at) ON a.id = d.id
            -- OFFSET 0, here and below: looked up one by one, and not all of the notification's, or of the app's, for each.
            LEFT JOIN LATERAL (SELECT settled FROM chunks WHERE notification = d.notification AND number = a.number OFFSET 0) AS c ON true
            LEFT JOIN installations i ON i.app_id = n.app_id AND i.id = d.installation
            LEFT JOIN LATERAL (
                SELECT live.id, live.environment, live.proven_at IS NULL AS unproven
                FROM tokens old JOIN tokens live ON live.app_id = old.app_id AND live.ordinal = i.ordinal
                    AND live.purpose = old.purpose AND live.environment = old.environment AND live.state = 'active'
                WHERE old.id = d.token_id OFFSET 0
            ) AS t ON true
        ), judged AS MATERIALIZED (
            SELECT f.*, x.id IS NOT NULL AS exists, CASE
                WHEN f.is_settled THEN 'settled'
                WHEN f.state = 'cancelled' THEN 'cancelled'
                WHEN f.class IS NULL AND NOT f.is_open AND NOT f.is_orphan THEN 'undecided'
                WHEN f.class NOT IN ('failed', 'unknown', 'expired') THEN 'settled'
                WHEN NOT f.is_same_owner THEN 'fenced'
                WHEN f.token_id IS NULL THEN 'token_gone'
                WHEN x.id IS NOT NULL AND x.id <> f.asked
                    AND NOT (x.class IS NULL AND x.last_reason IS NOT DISTINCT FROM 'replayed') THEN 'settled'
                WHEN f.expires_at <= now() AND $8::bigint = 0 THEN 'expired'
                ELSE 'sent' END AS verdict
            FROM found f
            LEFT JOIN LATERAL (
                SELECT * FROM deliveries WHERE notification = f.notification AND token_id = f.token_id OFFSET 0
            ) AS x ON true
        ), reopened AS (
            UPDATE deliveries d SET class = NULL, status = NULL, reason = NULL,
                attempts = j.attempts + (NOT j.is_open AND coalesce(j.class, '') NOT IN ('failed', 'unknown'))::int,
                last_class = NULL, last_status = NULL, last_reason = 'replayed', is_replayed = true, last_at = NULL, retry_at = NULL,
                environment = j.environment, unproven = j.unproven, updated_at = now()
            FROM judged j WHERE j.verdict = 'sent' AND j.target = j.asked AND d.id = j.asked
        ), added AS (
            INSERT INTO deliveries (id, notification, token_id, installation, owner_epoch, environment, unproven, last_reason, is_replayed,
                updated_at)
            SELECT DISTINCT ON (target) target, notification, token_id, installation, owner_epoch, environment, unproven, 'replayed', true, now()
            FROM judged WHERE verdict = 'sent' AND NOT exists
            ORDER BY target RETURNING notification
        ), marked AS (
            UPDATE chunks c SET settled = c.settled | m.mask
            FROM (
                SELECT j.notification, j.number, bit_or(set_bit(B'0'::bit(100), j.position, 1)) AS mask FROM judged j
                WHERE j.verdict = 'sent' AND j.target = j.asked AND j.class IS NULL AND j.is_counted AND j.position IS NOT NULL
                GROUP BY 1, 2
            ) AS m
            WHERE c.notification = m.notification AND c.number = m.number AND c.settled | m.mask <> c.settled
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
                expires_at = CASE WHEN n.expires_at > now() THEN n.expires_at ELSE now() + make_interval(secs => $8::bigint) END,
                apns_expiration = CASE WHEN n.expires_at > now() OR coalesce(n.apns_expiration, 0) = 0 THEN n.apns_expiration
                    ELSE extract(epoch FROM now())::bigint + $8 END
            FROM counted c WHERE n.id = c.notification
        )
        SELECT asked, verdict, target, notification, installation, attempts,
            class IS NULL AND (is_open OR is_orphan) AND NOT is_settled AND NOT (verdict = 'sent' AND target = asked), own_end
        FROM judged
        """
    private static let selectDeliveries: PostgresStatement = """
        SELECT d.id, t.token, d.environment, d.installation, d.owner_epoch, d.unproven AND cardinality(a.environments) > 1, d.notification,
            d.attempts
        FROM deliveries d JOIN tokens t ON t.id = d.token_id JOIN apps a ON a.id = t.app_id
        WHERE d.id = ANY ($1::uuid[]) ORDER BY d.notification, d.token_id
        """
}
