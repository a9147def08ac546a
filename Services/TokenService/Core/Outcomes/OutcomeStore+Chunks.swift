import Postgres
package import PushModel

/// Outcomes of notifications that keep counters instead of a receipt for every delivery: a bit in the chunk says that a delivery has its
/// outcome, so the counters stay exact however often it is told.
extension OutcomeStore {
    /// Those notifications of a batch, with their apps.
    package func countedNotifications(of batch: OutcomeBatch) throws -> [PushID: Int64] {
        let notifications = Tally(batch.final.lazy.map(\.delivery.notification))
            .adding(batch.attempts.lazy.map(\.delivery.notification)).counts.keys.sorted()
        guard !notifications.isEmpty else { return [:] }
        var counted: [PushID: Int64] = [:]
        for row in try session.execute(Self.counted, [.ids(notifications)]) { counted[try row.id(0)] = try row.int64(1) }
        return counted
    }

    /// A delivery that is not simply accepted at its first attempt gets a receipt after all; not one whose token was erased meanwhile.
    package func makeReceipts(of batch: OutcomeBatch, counted: [PushID: Int64]) throws {
        guard !counted.isEmpty else { return }
        let told = (batch.final.filter { $0.outcome != .accepted } + batch.attempts).map(\.delivery)
            .filter { counted[$0.notification] != nil }
        guard !told.isEmpty else { return }
        let deliveries = told.sorted { $0.id < $1.id }
        let places = deliveries.map { DeliveryNames.place(of: $0.id) }
        try session.execute(
            Self.insertReceipts,
            [
                .ids(deliveries.map(\.id)), .ids(deliveries.map(\.notification)), .int32Array(places.map { Int32(clamping: $0.chunk) }),
                .int32Array(places.map { Int32(clamping: $0.position) }), .ids(deliveries.map(\.installation)),
            ])
    }

    /// What a batch says of one chunk.
    private struct Told {
        let chunk: ChunkID
        /// Of each position, which of the entries; -1 where none.
        var places = [Int](repeating: -1, count: PushJob.maximumDeliveries)

        /// As PostgreSQL writes `bit(100)`: the first position first.
        var mask: String { String(decoding: places.map { $0 < 0 ? UInt8(ascii: "0") : UInt8(ascii: "1") }, as: UTF8.self) }
    }

    /// - Parameter entries: In ascending order of id, and so chunk by chunk.
    /// - Returns: those that had no final outcome before.
    func finishInChunks(_ entries: [OutcomeBatch.Entry], counted: [PushID: Int64]) throws -> [Finished] {
        guard !entries.isEmpty else { return [] }
        var told: [Told] = []
        var tellers: [ChunkID: Int] = [:]
        var last = 0
        for index in entries.indices {
            let place = DeliveryNames.place(of: entries[index].delivery.id)
            guard place.position < PushJob.maximumDeliveries else { continue }
            let chunk = ChunkID(notification: entries[index].delivery.notification, number: place.chunk)
            if told.isEmpty || told[last].chunk != chunk {
                last = tellers[chunk] ?? told.count
                if last == told.count {
                    told.append(Told(chunk: chunk))
                    tellers[chunk] = last
                }
            }
            told[last].places[place.position] = index
        }
        var fresh: [(entry: OutcomeBatch.Entry, token: Int64)] = []
        fresh.reserveCapacity(entries.count)
        for row in try session.execute(Self.settleChunks, ChunkID.columns(told.map(\.chunk)) + [.textArray(told.map(\.mask))]) {
            guard let teller = tellers[ChunkID(notification: try row.id(0), number: Int(try row.int32(1)))] else { continue }
            let members = Chunk.members(of: try row.bytes(3))
            for (position, bit) in try row.text(2).utf8.enumerated() where bit == UInt8(ascii: "1") && position < members.count {
                let place = told[teller].places[position]
                if place >= 0 { fresh.append((entries[place], members[position])) }
            }
        }
        try count(fresh.lazy.map(\.entry))
        return try finished(fresh, counted: counted)
    }

    private func finished(_ fresh: [(entry: OutcomeBatch.Entry, token: Int64)], counted: [PushID: Int64]) throws -> [Finished] {
        // Of a token that APNs accepted, only whether it had done so before matters; nearly all of them it had.
        let accepted = fresh.lazy.filter { $0.entry.outcome == .accepted }.map(\.token)
        let others = fresh.lazy.filter { $0.entry.outcome != .accepted }.map(\.token)
        var tokens: [Int64: (environment: String, isUnproven: Bool)] = [:]
        for rows in try session.pipeline([
            (Self.tokens, [.int64Array(Array(accepted)), .bool(true)]), (Self.tokens, [.int64Array(Array(others)), .bool(false)]),
        ]) {
            for row in rows { tokens[try row.int64(0)] = (try row.text(1), try row.bool(2)) }
        }
        return fresh.map { entry, token in
            // A token that was erased meanwhile changes nothing any more.
            let known = tokens.isEmpty ? nil : tokens[token]
            return Finished(
                id: entry.delivery.id, notification: entry.delivery.notification, app: counted[entry.delivery.notification] ?? 0,
                token: token, outcome: entry.outcome,
                environment: entry.delivery.environment?.rawValue ?? known?.environment ?? APNsEnvironment.production.rawValue,
                isUnproven: known?.isUnproven ?? false)
        }
    }

    private struct CountKey: Hashable, Comparable {
        let notification: PushID
        let outcome: OutcomeClass
        let status: Int32
        let reason: String

        static func < (left: CountKey, right: CountKey) -> Bool {
            (left.notification, left.outcome.rawValue, left.status, left.reason) < (
                right.notification, right.outcome.rawValue, right.status, right.reason
            )
        }
    }

    func count(_ entries: some Collection<OutcomeBatch.Entry>) throws {
        guard !entries.isEmpty else { return }
        let counts = Tally(
            entries.lazy.map { entry in
                CountKey(
                    notification: entry.delivery.notification, outcome: entry.outcome, status: Int32(clamping: entry.delivery.status ?? 0),
                    reason: entry.delivery.reason ?? "")
            }
        ).counts
        let keys = counts.keys.sorted()
        try session.execute(
            Self.addCounts,
            [
                .ids(keys.map(\.notification)), .textArray(keys.map(\.outcome.rawValue)), .int32Array(keys.map(\.status)),
                .textArray(keys.map(\.reason)), .int64Array(keys.map { counts[$0] ?? 0 }),
            ])
    }

    private static let counted: PostgresStatement =
        "SELECT id, app_id FROM notifications WHERE id = ANY ($1::uuid[]) AND receipts = 'failures'"

    private static let insertReceipts: PostgresStatement = """
        INSERT INTO deliveries (id, notification, token_id, installation, owner_epoch, environment, unproven, updated_at)
        SELECT e.id, e.notification, m.token, e.installation, coalesce(i.owner_epoch, 1), t.environment, t.proven_at IS NULL, now()
        FROM unnest($1::uuid[], $2::uuid[], $3::int[], $4::int[], $5::uuid[]) AS e (id, notification, number, position, installation)
        JOIN chunks c ON c.notification = e.notification AND c.number = e.number
        CROSS JOIN LATERAL (
            SELECT ('x' || encode(substring(c.members FROM e.position * 8 + 1 FOR 8), 'hex'))::bit(64)::bigint AS token
            WHERE octet_length(c.members) >= e.position * 8 + 8 AND get_bit(c.settled, least(e.position, 99)) = 0
        ) AS m
        JOIN tokens t ON t.id = m.token LEFT JOIN installations i ON i.app_id = t.app_id AND i.id = e.installation
        ON CONFLICT DO NOTHING
        """
    private static let settleChunks: PostgresStatement = """
        WITH locked AS (
            SELECT c.notification, c.number, c.settled, c.members, e.mask::bit(100) AS mask
            FROM unnest($1::uuid[], $2::int[], $3::text[]) AS e (notification, number, mask)
            JOIN chunks c ON c.notification = e.notification AND c.number = e.number
            ORDER BY c.notification, c.number FOR NO KEY UPDATE OF c
        ), changed AS (
            UPDATE chunks c SET settled = l.settled | l.mask FROM locked l
            WHERE c.notification = l.notification AND c.number = l.number AND (l.mask & ~l.settled) <> B'0'::bit(100)
        )
        SELECT notification, number, (mask & ~settled)::text, members FROM locked
        """
    private static let tokens: PostgresStatement = """
        SELECT id, environment, proven_at IS NULL FROM tokens WHERE id = ANY ($1::bigint[]) AND (proven_at IS NULL OR NOT $2)
        """

    private static let addCounts: PostgresStatement = """
        INSERT INTO notification_counts AS c (notification, class, status, reason, count)
        SELECT notification, class, status::smallint, reason, count
        FROM unnest($1::uuid[], $2::text[], $3::int[], $4::text[], $5::bigint[]) AS e (notification, class, status, reason, count)
        ON CONFLICT (notification, class, status, reason) DO UPDATE SET count = c.count + excluded.count
        """
}
