package import Postgres
import PushModel

/// The table `installation_history`, within one transaction.
package struct HistoryStore {
    private let session: PostgresSession

    package init(session: PostgresSession) { self.session = session }

    package func append(_ entries: [HistoryEntry]) throws {
        guard !entries.isEmpty else { return }
        try session.execute(Self.append, Self.parameters(entries))
    }

    /// For callers that put it into a batch of their own.
    package static func parameters(_ entries: [HistoryEntry]) -> [PostgresValue] {
        [
            .int64Array(entries.map(\.app)), .ids(entries.map(\.installation)), .timestampArray(entries.map(\.at)),
            .textArray(entries.map(\.event.rawValue)), .optionalInt64Array(entries.map(\.ownerEpoch)),
            .optionalTextArray(entries.map(\.owner)), .optionalInt64Array(entries.map(\.token?.id)),
            .optionalTextArray(entries.map(\.token?.hint)), .optionalTextArray(entries.map(\.token?.environment)),
            .optionalTextArray(entries.map(\.token?.purpose)), .optionalUUIDArray(entries.map(\.otherInstallation?.uuid)),
            .optionalInt32Array(entries.map(\.status)), .optionalTextArray(entries.map(\.reason)),
            .optionalTimestampArray(entries.map(\.apnsTimestamp)), .optionalUUIDArray(entries.map(\.delivery?.uuid)),
        ]
    }

    package static let append: PostgresStatement = """
        INSERT INTO installation_history (app_id, installation, at, event, owner_epoch, owner, token_id, token_hint, environment,
            purpose, other_installation, status, reason, apns_timestamp, delivery)
        SELECT app_id, installation, at, event, owner_epoch, owner, token_id, token_hint, environment,
            purpose, other_installation, status::smallint, reason, apns_timestamp, delivery
        FROM unnest($1::bigint[], $2::uuid[], $3::timestamptz[], $4::text[], $5::bigint[], $6::text[], $7::bigint[], $8::text[],
            $9::text[], $10::text[], $11::uuid[], $12::int[], $13::text[], $14::timestamptz[], $15::uuid[])
            AS e (app_id, installation, at, event, owner_epoch, owner, token_id, token_hint, environment, purpose,
                other_installation, status, reason, apns_timestamp, delivery)
        """
}
