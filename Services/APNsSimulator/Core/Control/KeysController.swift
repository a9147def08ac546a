import Hummingbird
import StrictJSON

/// The signing keys, which may be suspended, revoked and restored while clients are connected.
struct KeysController {
    let simulator: APNsSimulator

    func list() -> Response {
        let keys = simulator.keyRing.states()
        return ControlAnswer.json { writer in
            writer.object { object in
                object.array("keys") { array in
                    for (key, state) in keys { array.object { Self.write(key, state, to: &$0) } }
                }
            }
        }
    }

    func put(_ request: ControlRequest) async throws -> Response {
        let keyID = try request.context.parameters.require("key")
        let state = try await request.body { reader in reader.choice("state", of: ProviderKey.State.self) }
        guard simulator.set(state, keyID: keyID), let found = simulator.keyRing.states().first(where: { $0.key.keyID == keyID }) else {
            throw ControlProblem(.notFound, "unknown_key", "No such key", "GET /v1/keys lists those there are")
        }
        return ControlAnswer.json { writer in writer.object { Self.write(found.key, found.state, to: &$0) } }
    }

    private static func write(_ key: ProviderKey, _ state: ProviderKey.State, to object: inout JSONWriter) {
        object.field("key_id", key.keyID)
        object.field("team_id", key.teamID)
        object.field("state", state.rawValue)
        object.field("environments", key.environments.map(\.rawValue).sorted())
        if let topics = key.topics { object.field("topics", topics) }
    }
}
