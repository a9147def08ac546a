import Postgres
import PushModel
import TokenServiceApps
import TokenServiceRegistry

/// The SQL of a channel's broadcasts: some columns of `channels`, which the registry of channels does not touch. It takes no lock on the
/// channel's scope.
struct ChannelLineStore {
    let session: PostgresSession

    /// Locks the channels that exist; missing keys are absent from the result.
    func lock(_ keys: some Sequence<ChannelLine.Key>) throws -> [ChannelLine.Key: ChannelLine] {
        let keys = Set(keys).sorted()
        let rows = try session.execute(
            """
            SELECT c.* FROM unnest(\(keys.map(\.app))::bigint[], \(keys.map(\.name))::text[]) AS e (app_id, name)
            JOIN channels c ON c.app_id = e.app_id AND c.name = e.name ORDER BY c.app_id, c.name FOR NO KEY UPDATE OF c
            """)
        var channels: [ChannelLine.Key: ChannelLine] = [:]
        for row in rows {
            let channel = try ChannelLine(row)
            channels[channel.key] = channel
        }
        return channels
    }

    /// Writes rows that are locked. A notification may be ``UpdateLine/sending`` without a delivery that has no outcome: with the fallback,
    /// fan-out makes its deliveries page by page.
    static func save(_ rows: [ChannelLine]) -> [PostgresQuery] {
        guard !rows.isEmpty else { return [] }
        return [
            """
            UPDATE channels c SET newest = e.newest, newest_timestamp = e.newest_timestamp, is_end = e.is_end, is_waiting = e.is_waiting,
                sending = e.sending, is_sending_end = e.is_sending_end, is_retrying = e.is_retrying, free_at = e.free_at,
                ended_at = e.ended_at, stale_at = e.stale_at, dismissed_at = e.dismissed_at
            FROM unnest(\(rows.map(\.key.app))::bigint[], \(rows.map(\.channel))::bigint[], \(rows.map(\.line.newest))::uuid[],
                    \(rows.map(\.line.newestTimestamp))::bigint[], \(rows.map(\.isEnd))::bool[], \(rows.map(\.line.isWaiting))::bool[],
                    \(rows.map(\.line.sending))::uuid[], \(rows.map(\.isSendingEnd))::bool[], \(rows.map(\.line.isRetrying))::bool[],
                    \(milliseconds: rows.map(\.line.freeAt))::timestamptz[], \(milliseconds: rows.map(\.endedAt))::timestamptz[],
                    \(milliseconds: rows.map(\.staleAt))::timestamptz[], \(milliseconds: rows.map(\.dismissedAt))::timestamptz[])
                AS e (app_id, id, newest, newest_timestamp, is_end, is_waiting, sending, is_sending_end, is_retrying, free_at, ended_at,
                    stale_at, dismissed_at)
            WHERE c.app_id = e.app_id AND c.id = e.id
            """
        ]
    }
}

extension ChannelLine {
    /// - Parameter row: A row of `channels`.
    init(_ row: PostgresRow) throws {
        guard let name: String = try row["name"] else { throw CorruptRow(table: "channels") }
        self.init(
            key: Key(app: try row["app_id"], name: name), channel: try row["id"], line: try UpdateLine(row), isEnd: try row["is_end"],
            isSendingEnd: try row["is_sending_end"],
            endedAt: try row.milliseconds("ended_at"), staleAt: try row.milliseconds("stale_at"),
            dismissedAt: try row.milliseconds("dismissed_at"))
    }
}
