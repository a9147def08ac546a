import Hummingbird
import StrictJSON
import Synchronization

/// Broadcast channels, as the tester sees them. Senders use the ports for channels.
struct ChannelsControl {
    let simulator: APNsSimulator

    /// Lists at most `limit` channels, and with `followers` also so many devices of each, by token.
    func list(_ request: ControlRequest) throws -> Response {
        let followers = try request.number("followers", in: 0...1000).map { Int($0) } ?? 0
        let limit = try request.number("limit", in: 1...Int64(BroadcastApps.maximumChannelsOfAll)).map { Int($0) } ?? .max
        let apps = simulator.world.state.withLock { state in state.broadcast.keys.map { ($0, state.broadcast.app($0)) } }
        let channels =
            apps
            .sorted { ($0.0.bundleID, $0.0.environment.rawValue) < ($1.0.bundleID, $1.0.environment.rawValue) }
            .flatMap { key, app in app.channels.sorted { $0.key < $1.key }.map { (key: key, id: $0.key, channel: $0.value) } }
        return ControlAnswer.json { writer in
            writer.object { object in
                object.field("total", channels.count)
                object.array("channels") { array in
                    for found in channels.prefix(limit) {
                        array.object { write(found.id, found.channel, found.key, followers: followers, to: &$0) }
                    }
                }
            }
        }
    }

    private func write(
        _ id: String, _ channel: Channel, _ key: BroadcastApps.Key, followers: Int, to entry: inout JSONWriter
    ) {
        entry.field("channel_id", id)
        entry.field("bundle_id", key.bundleID)
        entry.field("environment", key.environment.rawValue)
        entry.field("stores", channel.isStoring)
        entry.field("published", channel.published)
        entry.field("subscribers", channel.subscribers.count)
        entry.field("anonymous", channel.anonymous)
        entry.field("receptions", channel.receptions)
        if followers > 0 { writeFollowers(channel.subscribers.map(\.hex).sorted().prefix(followers), of: id, to: &entry) }
    }

    private func writeFollowers(_ tokens: ArraySlice<String>, of channelID: String, to entry: inout JSONWriter) {
        entry.array("followers") { array in
            for key in tokens.compactMap({ TokenKey(hex: $0) }) {
                guard let summary = simulator.world.device(key) else { continue }
                let activities = simulator.world.activities(of: key, now: simulator.configuration.clock())?.activities ?? []
                array.object { follower in
                    follower.field("token", summary.device.token)
                    follower.field("name", summary.device.name)
                    follower.field("online", summary.device.isOnline)
                    follower.field("missed", summary.missedCount)
                    follower.field("activities", activities.filter { $0.channelID == channelID && $0.state != .dismissed }.map(\.id))
                }
            }
        }
    }

    /// Followers without devices, which are always online and count what they get.
    func addFollowers(_ request: ControlRequest) async throws -> Response {
        let (channelID, count) = try await request.body { reader -> (String, Int64)? in
            let channelID = reader.string("channel_id", maximumBytes: 200)
            let count = reader.integer("add", in: -BroadcastApps.maximumAnonymous...BroadcastApps.maximumAnonymous)
            guard let channelID, let count else { return nil }
            return (channelID, count)
        }
        guard simulator.world.addAnonymousFollowers(count, to: channelID) else {
            throw ControlProblem(.notFound, "unknown_channel", "Unknown channel", "GET /v1/channels lists those there are")
        }
        return ControlAnswer.noContent
    }

    /// The Broadcast Capability of an App ID; without it, every request is `FeatureNotEnabled`, and its channels are gone.
    func putCapability(_ request: ControlRequest) async throws -> Response {
        let bundleID = try request.context.parameters.require("bundle")
        let isEnabled = try await request.body { $0.bool("enabled") }
        for environment in SimulatorEnvironment.allCases {
            simulator.world.setBroadcast(isEnabled, BroadcastApps.Key(environment: environment, bundleID: bundleID))
        }
        return ControlAnswer.json { writer in
            writer.object { object in
                object.field("bundle_id", bundleID)
                object.field("enabled", isEnabled)
            }
        }
    }
}
