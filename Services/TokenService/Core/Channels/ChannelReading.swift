import Postgres
import PushModel

/// An app's channels as lists and single answers show them.
struct ChannelReading {
    let session: PostgresSession
    let app: App

    struct Filter: Sendable {
        var state: BroadcastChannel.State?
        var environment: APNsEnvironment?
    }

    func find(_ name: String) throws -> ShownChannel? {
        guard let channel = try ChannelStore.find(name, of: app.id, in: session) else { return nil }
        let store = ChannelStore(session: session, app: app.id, environment: channel.environment)
        return ShownChannel(channel: channel, followers: try store.followers(of: channel))
    }

    /// In the order in which they were recorded.
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
    /// Live Activities that follow the channel. The system ends each eight hours after its start.
    func followers(of channel: BroadcastChannel) throws -> Int {
        try session.execute(
            """
            SELECT count(*) AS count FROM activities
            WHERE channel = \(channel.id) AND ended_at IS NULL AND started_at > now() - interval '8 hours'
            """
        ).only()["count"]
    }
}
