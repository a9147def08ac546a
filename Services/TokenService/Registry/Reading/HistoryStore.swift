package import Postgres
import PushModel

/// The table `installation_history`.
package enum HistoryStore {
    package static func append(_ entries: [HistoryEntry]) -> PostgresQuery {
        """
        INSERT INTO installation_history (app_id, installation, at, event, owner_epoch, owner, token_id, token_hint, environment,
            purpose, other_installation, status, reason, apns_timestamp, delivery)
        SELECT * FROM unnest(
            \(entries.map(\.app))::bigint[], \(entries.map(\.installation))::uuid[], \(milliseconds: entries.map(\.at))::timestamptz[],
            \(entries.map(\.event.rawValue))::text[], \(entries.map(\.ownerEpoch))::bigint[], \(entries.map(\.owner))::text[],
            \(entries.map(\.token?.id))::bigint[], \(entries.map(\.token?.hint))::text[], \(entries.map(\.token?.environment))::text[],
            \(entries.map(\.token?.purpose))::text[], \(entries.map(\.otherInstallation))::uuid[], \(entries.map(\.status))::int[],
            \(entries.map(\.reason))::text[], \(milliseconds: entries.map(\.apnsTimestamp))::timestamptz[],
            \(entries.map(\.delivery))::uuid[])
        """
    }
}
