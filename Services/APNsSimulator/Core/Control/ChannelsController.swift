import Hummingbird
import StrictJSON
import Synchronization

/// Broadcast channels, as the tester sees them. Senders use the ports for channels.
struct ChannelsController {
    let simulator: APNsSimulator

    func list() -> Response {
        let apps = simulator.world.state.withLock { state in state.broadcast.keys.map { ($0, state.broadcast.app($0)) } }
        return ControlAnswer.json { writer in
            writer.object { object in
                object.array("channels") { array in
                    for (key, app) in apps.sorted(by: {
                        ($0.0.bundleID, $0.0.environment.rawValue) < ($1.0.bundleID, $1.0.environment.rawValue)
                    }) {
                        for (id, channel) in app.channels.sorted(by: { $0.key < $1.key }) {
                            array.object { entry in
                                entry.field("channel_id", id)
                                entry.field("bundle_id", key.bundleID)
                                entry.field("environment", key.environment.rawValue)
                                entry.field("stores", channel.isStoring)
                                entry.field("published", channel.published)
                                entry.field("subscribers", channel.subscribers.count)
                            }
                        }
                    }
                }
            }
        }
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
