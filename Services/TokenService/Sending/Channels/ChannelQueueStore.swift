import Postgres
import PushModel
import TokenServiceApps
import TokenServiceRegistry

/// The SQL of a channel's broadcasts: some columns of `channels`, which the registry of channels does not touch. It takes no lock on the
/// channel's plan.
struct ChannelQueueStore {
    let session: PostgresSession

    /// Locks the channels that exist; missing keys are absent from the result.
    func lock(_ keys: some Sequence<ChannelQueue.Key>) throws -> [ChannelQueue.Key: ChannelQueue] {
        let keys = Set(keys).sorted()
        let rows = try session.execute(
            """
            SELECT c.* FROM unnest(\(keys.map(\.app))::bigint[], \(keys.map(\.name))::text[]) AS e (app_id, name)
            JOIN channels c ON c.app_id = e.app_id AND c.name = e.name ORDER BY c.app_id, c.name FOR NO KEY UPDATE OF c
            """)
        var channels: [ChannelQueue.Key: ChannelQueue] = [:]
        for row in rows {
            let channel = try ChannelQueue(row)
            channels[channel.key] = channel
        }
        return channels
    }

    /// Writes rows that are locked. A notification may be ``UpdateQueue/sending`` without a delivery that has no outcome: with the
    /// fallback, fan-out makes its deliveries page by page.
    static func save(_ rows: [ChannelQueue]) -> [PostgresQuery] {
        guard !rows.isEmpty else { return [] }
        return [
            """
            UPDATE channels c SET newest = e.newest, newest_timestamp = e.newest_timestamp, is_end = e.is_end, is_waiting = e.is_waiting,
                sending = e.sending, is_sending_end = e.is_sending_end, is_retrying = e.is_retrying, free_at = e.free_at,
                ended_at = e.ended_at, stale_at = e.stale_at, dismissed_at = e.dismissed_at
            FROM unnest(\(rows.map(\.key.app))::bigint[], \(rows.map(\.channel))::bigint[], \(rows.map(\.queue.newest))::uuid[],
                    \(rows.map(\.queue.newestTimestamp))::bigint[], \(rows.map(\.isEnd))::bool[], \(rows.map(\.queue.isWaiting))::bool[],
                    \(rows.map(\.queue.sending))::uuid[], \(rows.map(\.isSendingEnd))::bool[], \(rows.map(\.queue.isRetrying))::bool[],
                    \(milliseconds: rows.map(\.queue.freeAt))::timestamptz[], \(milliseconds: rows.map(\.endedAt))::timestamptz[],
                    \(milliseconds: rows.map(\.staleAt))::timestamptz[], \(milliseconds: rows.map(\.dismissedAt))::timestamptz[])
                AS e (app_id, id, newest, newest_timestamp, is_end, is_waiting, sending, is_sending_end, is_retrying, free_at, ended_at,
                    stale_at, dismissed_at)
            WHERE c.app_id = e.app_id AND c.id = e.id
            """
        ]
    }
}

extension ChannelQueue {
    /// - Parameter row: A row of `channels`.
    init(_ row: PostgresRow) throws {
        guard let name: String = try row["name"] else { throw CorruptRow(table: "channels") }
        self.init(
            key: Key(app: try row["app_id"], name: name), channel: try row["id"], queue: try UpdateQueue(row), isEnd: try row["is_end"],
            isSendingEnd: try row["is_sending_end"],
            endedAt: try row.milliseconds("ended_at"), staleAt: try row.milliseconds("stale_at"),
            dismissedAt: try row.milliseconds("dismissed_at"))
    }
}
