import Postgres
import PushModel
import TokenServiceApps

/// An app's channels as lists and single answers show them.
struct ChannelReading {
    let session: PostgresSession
    let app: App

    struct Filter: Sendable {
        var state: BroadcastChannel.State?
        var environment: APNsEnvironment?
    }

    /// Finds the channel of this name in any environment.
    func channel(_ name: String) throws -> BroadcastChannel? {
        try session.execute("SELECT * FROM channels WHERE app_id = \(app.id) AND name = \(name)").first.map { try BroadcastChannel($0) }
    }

    func find(_ name: String) throws -> ShownChannel? {
        guard let channel = try self.channel(name) else { return nil }
        let store = ChannelStore(session: session, app: app.id, environment: channel.environment)
        return ShownChannel(channel: channel, followers: try store.followers(of: channel, upTo: ShownChannel.maximumFollowers))
    }

    /// Reads channels in the order in which they were recorded.
    func page(_ filter: Filter, after id: BroadcastChannel.ID, limit: Int) throws -> (
        channels: [BroadcastChannel], last: BroadcastChannel.ID?
    ) {
        let channels = try session.execute(
            """
            SELECT * FROM channels
            WHERE app_id = \(app.id) AND id > \(id) AND (\(filter.state)::text IS NULL OR state = \(filter.state))
                AND (\(filter.environment)::text IS NULL OR environment = \(filter.environment))
            ORDER BY id LIMIT \(limit + 1)
            """
        ).map { try BroadcastChannel($0) }
        return (Array(channels.prefix(limit)), channels.count > limit ? channels[limit - 1].id : nil)
    }
}

extension ChannelStore {
    /// Live Activities that follow the channel. The system ends each eight hours after its start, and a broadcast may end all of them.
    /// - Parameter limit: PostgreSQL reads no more of them: a channel may have millions.
    func followers(of channel: BroadcastChannel, upTo limit: Int) throws -> Int {
        try session.execute(
            """
            SELECT count(*) AS count FROM update_targets q
            CROSS JOIN LATERAL (
                SELECT FROM activities a
                WHERE a.channel = q.ordinal AND a.ended_at IS NULL AND a.started_at > greatest(now() - interval '8 hours', q.ended_at)
                ORDER BY a.started_at LIMIT \(limit)
            ) AS followers
            WHERE q.app_id = \(app) AND q.owned_by = 'channel' AND q.id = \(channel.name)
            """
        ).only()["count"]
    }

    /// A broadcast waits for its turn, or for Apple's answer.
    func isBroadcasting(_ channel: BroadcastChannel) throws -> Bool {
        try session.execute(
            """
            SELECT EXISTS (
                SELECT FROM update_targets c WHERE c.app_id = \(app) AND c.owned_by = 'channel' AND c.id = \(channel.name)
                    AND (c.is_waiting OR EXISTS (
                        SELECT FROM notifications n WHERE n.id = c.sending AND n.completed_at IS NULL AND n.expires_at > now()))) AS is_busy
            """
        ).only()["is_busy"]
    }
}
