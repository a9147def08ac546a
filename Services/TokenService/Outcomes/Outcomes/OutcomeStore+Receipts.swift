import Postgres
import PushModel
import TokenServiceSending

/// Receipts.
extension OutcomeStore {
    /// The registry's facts about a token.
    enum TokenFacts: Equatable {
        /// APNs has accepted it somewhere.
        case proven
        case unproven
        /// It was erased with its user, or deleted because the installation has newer retired ones.
        case erased
    }

    /// An attempt that is not the end gets a receipt that is open, unless the delivery has its outcome already or its token was erased.
    ///
    /// An event about a delivery that was put back without an attempt has the next attempt's number, too: events are put in order by it.
    /// Readers of the attempts subtract that one (``NotificationStatus/Attempt/wasTried``).
    package func noteAttempts(_ entries: [OutcomeBatch.Entry]) throws {
        guard !entries.isEmpty else { return }
        let deliveries = entries.map(\.delivery)
        let places = deliveries.map { DeliveryNames.place(of: $0.id) }
        try session.execute(
            """
            INSERT INTO receipts AS r (notification, number, position, token_id, installation, owner_epoch, environment, attempts,
                last_class, last_status, last_reason, last_at, retry_at, apns_unique_id, updated_at)
            SELECT e.notification, e.number, e.position, member_at(j.members, e.position::int), e.installation, coalesce(e.owner_epoch, 0),
                CASE get_bit(j.sandbox, e.position::int) WHEN 1 THEN 'sandbox' ELSE 'production' END, e.attempt,
                e.class, e.status, e.reason, e.at, e.retry_at, e.apns_unique_id, now()
            FROM unnest(\(deliveries.map(\.notification))::uuid[], \(places.map(\.job))::bigint[], \(places.map(\.position))::bigint[],
                    \(deliveries.map(\.installation))::uuid[], \(deliveries.map(\.ownerEpoch))::bigint[],
                    \(entries.map(\.outcome.rawValue))::text[], \(deliveries.map(\.status))::bigint[], \(deliveries.map(\.reason))::text[],
                    \(deliveries.map(\.attempt))::bigint[], \(milliseconds: entries.map { $0.delivery.sentAt ?? $0.time })::timestamptz[],
                    \(milliseconds: deliveries.map(\.retryAt))::timestamptz[], \(deliveries.map(\.apnsUniqueID))::text[])
                AS e (notification, number, position, installation, owner_epoch, class, status, reason, attempt, at, retry_at,
                    apns_unique_id)
            JOIN jobs j ON j.notification = e.notification AND j.number = e.number
            WHERE (member_at(j.members, e.position::int) < 0 OR EXISTS (
                    SELECT FROM tokens t WHERE t.id = member_at(j.members, e.position::int)))
                AND (get_bit(j.ended, e.position::int) = 0 OR EXISTS (
                    SELECT FROM receipts x
                    WHERE x.notification = e.notification AND x.number = e.number AND x.position = e.position AND x.is_replayed))
            ORDER BY e.notification, e.number, e.position
            ON CONFLICT (notification, number, position) DO UPDATE SET attempts = excluded.attempts, last_class = excluded.last_class,
                last_status = excluded.last_status, last_reason = excluded.last_reason, last_at = excluded.last_at,
                retry_at = excluded.retry_at, apns_unique_id = coalesce(excluded.apns_unique_id, r.apns_unique_id), updated_at = now()
            WHERE r.class IS NULL AND r.attempts <= excluded.attempts
                -- A replay counts on from here: an event with this number is of the delivery's earlier life.
                AND (r.attempts < excluded.attempts OR NOT r.is_replayed OR r.last_reason IS DISTINCT FROM 'replayed')
            """)
    }

    /// Finds deliveries that end though their bit is set: a replay has reopened the receipt, and only an event after the replay ends it.
    func finishReplayed(_ entries: [OutcomeBatch.Entry]) throws -> [End] {
        guard !entries.isEmpty else { return [] }
        let places = entries.map { DeliveryNames.place(of: $0.delivery.id) }
        let rows = try session.execute(
            """
            SELECT e.index, r.token_id, r.environment
            FROM unnest(\(Array(entries.indices))::bigint[], \(entries.map(\.delivery.notification))::uuid[],
                \(places.map(\.job))::bigint[],
                    \(places.map(\.position))::bigint[], \(entries.map(\.delivery.attempt))::bigint[])
                AS e (index, notification, number, position, attempt)
            JOIN receipts r ON r.notification = e.notification AND r.number = e.number AND r.position = e.position
            WHERE r.class IS NULL AND r.is_replayed
                AND (e.attempt > r.attempts OR e.attempt = r.attempts AND r.last_reason IS DISTINCT FROM 'replayed')
            ORDER BY e.notification, e.number, e.position FOR NO KEY UPDATE OF r
            """)
        return try rows.map { row in
            let index: Int = try row["index"]
            return End(entry: entries[index], token: try row["token_id"], environment: try row["environment"], isReplayed: true)
        }
    }

    /// Writes the receipts of final outcomes. If a token is gone, its delivery gets no new receipt; one that the delivery has ends with it.
    /// - Returns: The registry's facts about their tokens; for a token that APNs accepted and that gets no receipt, only if it is unproven.
    func writeReceipts(of ends: [End], _ origins: [PushID: Origin]) throws -> [Int64: TokenFacts] {
        guard !ends.isEmpty else { return [:] }
        let quiet = ends.filter { end in
            let delivery = end.entry.delivery
            return end.entry.outcome == .accepted && delivery.attempt == 1 && origins[delivery.notification]?.keepsAll == false
        }
        let unwritten = Set(quiet.lazy.map(\.entry.delivery.id)).subtracting(try openReceipts(of: quiet))
        let written = unwritten.isEmpty ? ends : ends.filter { !unwritten.contains($0.entry.delivery.id) }
        let tokens = try tokenFacts(written.map(\.token), provenOrNot: quiet.map(\.token))
        let goneAndOpen = try openReceipts(of: written.filter { tokens[$0.token] == .erased && !$0.isReplayed })
        try insertReceipts(
            of: written.filter { tokens[$0.token] != .erased || $0.isReplayed || goneAndOpen.contains($0.entry.delivery.id) })
        return tokens
    }

    /// Finds the deliveries whose stored receipt is of an attempt before the last, and locks it, so that no erasure removes it meanwhile.
    /// The rows are ordered by the names: in the order of the index, PostgreSQL would read every period.
    private func openReceipts(of ends: [End]) throws -> Set<PushID> {
        guard !ends.isEmpty else { return [] }
        let places = ends.map { DeliveryNames.place(of: $0.entry.delivery.id) }
        let indices: [Int] = try session.execute(
            """
            SELECT e.index
            FROM unnest(\(Array(ends.indices))::bigint[], \(ends.map(\.entry.delivery.notification))::uuid[],
                \(places.map(\.job))::bigint[],
                    \(places.map(\.position))::bigint[])
                AS e (index, notification, number, position)
            JOIN receipts r ON r.notification = e.notification AND r.number = e.number AND r.position = e.position
            ORDER BY e.notification, e.number, e.position FOR NO KEY UPDATE OF r
            """
        ).column("index")
        return Set(indices.map { ends[$0].entry.delivery.id })
    }

    /// - Parameters:
    ///   - needed: Tokens whose facts are all needed; a missing one is gone.
    ///   - accepted: Tokens that APNs accepted: of these it only matters whether it had done so before, and of nearly all it had.
    private func tokenFacts(_ needed: [Int64], provenOrNot accepted: [Int64]) throws -> [Int64: TokenFacts] {
        let answers = try session.pipeline([
            "SELECT id, proven_at IS NULL AS is_unproven FROM tokens WHERE id = ANY (\(needed))",
            "SELECT id, true AS is_unproven FROM tokens WHERE id = ANY (\(accepted)) AND proven_at IS NULL",
        ])
        var facts: [Int64: TokenFacts] = [:]
        // A channel is no token: nothing is proven, and nothing erased.
        for token in needed { facts[token] = BroadcastMember.isChannel(token) ? .proven : .erased }
        for row in answers.joined() {
            facts[try row["id"]] = try row["is_unproven"] ? .unproven : .proven
        }
        return facts
    }

    private func insertReceipts(of ends: [End]) throws {
        guard !ends.isEmpty else { return }
        let deliveries = ends.map(\.entry.delivery)
        let places = deliveries.map { DeliveryNames.place(of: $0.id) }
        // A delivery that was stopped on purpose was not tried.
        let attempts = ends.map { $0.entry.delivery.attempt - ([.expired, .fenced, .held, .cancelled].contains($0.entry.outcome) ? 1 : 0) }
        let environments = ends.map { ($0.entry.delivery.environment ?? $0.environment).rawValue }
        try session.execute(
            """
            INSERT INTO receipts AS r (notification, number, position, token_id, installation, owner_epoch, environment, class, status,
                reason, attempts, apns_unique_id, updated_at)
            SELECT e.notification, e.number, e.position, e.token_id, e.installation, coalesce(e.owner_epoch, 0), e.environment, e.class,
                e.status, e.reason, e.attempts, e.apns_unique_id, now()
            FROM unnest(\(deliveries.map(\.notification))::uuid[], \(places.map(\.job))::bigint[], \(places.map(\.position))::bigint[],
                    \(ends.map(\.token))::bigint[], \(deliveries.map(\.installation))::uuid[], \(deliveries.map(\.ownerEpoch))::bigint[],
                    \(environments)::text[], \(ends.map(\.entry.outcome.rawValue))::text[], \(deliveries.map(\.status))::bigint[],
                    \(deliveries.map(\.reason))::text[], \(attempts)::bigint[], \(deliveries.map(\.apnsUniqueID))::text[])
                AS e (notification, number, position, token_id, installation, owner_epoch, environment, class, status, reason, attempts,
                    apns_unique_id)
            ORDER BY e.notification, e.number, e.position
            ON CONFLICT (notification, number, position) DO UPDATE SET class = excluded.class, status = excluded.status,
                reason = excluded.reason, environment = excluded.environment, updated_at = now(),
                apns_unique_id = coalesce(excluded.apns_unique_id, r.apns_unique_id),
                -- An attempt that was put back without having been tried had the next one's number.
                attempts = greatest(
                    r.attempts - coalesce((r.last_class <> 'unknown' AND r.last_status IS NULL)::int, 0), excluded.attempts)
            WHERE r.class IS NULL
            """)
    }
}
