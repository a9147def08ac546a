package import Postgres
package import PushModel

/// The SQL that outcomes need, within one transaction.
package struct OutcomeStore {
    let session: PostgresSession

    package init(session: PostgresSession) { self.session = session }

    /// A delivery that has its final outcome from now on.
    package struct Finished: Sendable {
        package let id: PushID
        package let notification: PushID
        package let app: Int64
        package let token: Int64
        package let outcome: OutcomeClass
        /// The one that answered.
        package let environment: String
        /// APNs had accepted the token nowhere yet when the delivery was made.
        package let isUnproven: Bool
        /// A replay had reopened it.
        package var isReplayed = false
    }

    /// - Returns: those that have a receipt.
    @discardableResult
    package func lockDeliveries(of batch: OutcomeBatch) throws -> Set<PushID> {
        var ids = batch.final.map(\.delivery.id)
        if !batch.attempts.isEmpty || !batch.throttled.isEmpty {
            ids = Set(ids).union(batch.attempts.map(\.delivery.id)).union(batch.throttled.map(\.delivery.id)).sorted()
        }
        return Set(try session.execute(Self.lockDeliveries, [.ids(ids)]).only().uuidArray(0).map { PushID($0) })
    }

    package func noteAttempts(_ entries: [OutcomeBatch.Entry]) throws {
        guard !entries.isEmpty else { return }
        try session.execute(
            Self.noteAttempts,
            Self.columns(entries) + [
                .optionalTimestampArray(entries.map { $0.delivery.sentAt ?? $0.time }),
                .optionalTimestampArray(entries.map(\.delivery.retryAt)),
            ])
    }

    /// - Parameter receipts: Deliveries that have one, and are locked.
    /// - Returns: those that had no final outcome before.
    package func finish(_ entries: [OutcomeBatch.Entry], receipts: Set<PushID>, counted: [PushID: Int64]) throws -> [Finished] {
        let written = receipts.isEmpty ? [] : entries.filter { receipts.contains($0.delivery.id) }
        // What is counted may have a receipt as well, but it is the chunk that knows whether this is the first time, until it is replayed.
        let receipted = try finishReceipts(written).filter { counted[$0.notification] == nil || $0.isReplayed }
        let replayed = Set(receipted.filter { counted[$0.notification] != nil }.map(\.id))
        if !replayed.isEmpty { try count(entries.filter { replayed.contains($0.delivery.id) }) }
        guard !counted.isEmpty else { return receipted }
        return receipted + (try finishInChunks(entries.filter { counted[$0.delivery.notification] != nil }, counted: counted))
    }

    private func finishReceipts(_ entries: [OutcomeBatch.Entry]) throws -> [Finished] {
        guard !entries.isEmpty else { return [] }
        let environments = PostgresValue.optionalTextArray(entries.map(\.delivery.environment?.rawValue))
        return try session.execute(Self.finish, Self.columns(entries) + [environments]).map { row in
            guard let outcome = OutcomeClass(rawValue: try row.text(4)) else { throw CorruptRow(table: "deliveries") }
            return Finished(
                id: try row.id(0), notification: try row.id(1), app: try row.int64(2), token: try row.int64(3), outcome: outcome,
                environment: try row.text(5), isUnproven: try row.bool(6), isReplayed: try row.bool(7))
        }
    }

    /// - Returns: how many notifications have all their outcomes now.
    package func settleNotifications(_ finished: [Finished]) throws -> Int {
        guard !finished.isEmpty else { return 0 }
        let counts = Tally(finished.lazy.map(\.notification)).counts
        let ids = counts.keys.sorted()
        try session.execute(Self.lockNotifications, [.ids(ids)])
        let settled = try session.execute(Self.settleNotifications, [.ids(ids), .int32Array(ids.map { Int32(clamping: counts[$0] ?? 0) })])
        return try settled.reduce(0) { try $0 + ($1.bool(0) ? 1 : 0) }
    }

    /// Before anything of them, or of their tokens' places, is changed.
    package func lockInstallations(of entries: [OutcomeBatch.Entry]) throws {
        guard !entries.isEmpty else { return }
        try session.execute(Self.lockInstallations, [.ids(entries.map(\.delivery.id))])
    }

    /// - Returns: how many installations wait longer than they did.
    package func throttle(_ entries: [OutcomeBatch.Entry]) throws -> Int {
        guard !entries.isEmpty else { return 0 }
        let ids = PostgresValue.ids(entries.map(\.delivery.id))
        return Int(
            try session.execute(
                Self.throttle,
                [
                    ids, .optionalTimestampArray(entries.map(\.delivery.retryAt)),
                    .optionalInt32Array(entries.map { $0.delivery.status.map { Int32(clamping: $0) } }),
                    .optionalTextArray(entries.map(\.delivery.reason)),
                ]
            ).only().int64(0))
    }

    /// Adds to the apps' counts per minute, which the brakes judge by.
    package func count(_ finished: [Finished]) throws {
        guard !finished.isEmpty else { return }
        let counts = Tally(finished.lazy.map { Key(app: $0.app, outcome: $0.outcome) }).counts
        let keys = counts.keys.sorted { ($0.app, $0.outcome.rawValue) < ($1.app, $1.outcome.rawValue) }
        try session.execute(
            Self.count,
            [.int64Array(keys.map(\.app)), .textArray(keys.map(\.outcome.rawValue)), .int64Array(keys.map { counts[$0] ?? 0 })])
    }

    private struct Key: Hashable {
        var app: Int64
        var outcome: OutcomeClass
    }

    static func columns(_ entries: [OutcomeBatch.Entry]) -> [PostgresValue] {
        [
            .ids(entries.map(\.delivery.id)), .ids(entries.map(\.delivery.notification)), .textArray(entries.map(\.outcome.rawValue)),
            .optionalInt32Array(entries.map { $0.delivery.status.map { Int32(clamping: $0) } }),
            .optionalTextArray(entries.map(\.delivery.reason)), .int32Array(entries.map { Int32(clamping: $0.delivery.attempt) }),
        ]
    }
}
