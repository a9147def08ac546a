import HTTPTypes
import Hummingbird
import OpenSSL
import StrictJSON

/// The signing keys, which may be added, suspended, revoked, restored and removed while clients are connected.
struct KeysControl {
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

    private enum Wish {
        case state(ProviderKey.State)
        case whole(ProviderKey, ProviderKey.State)
    }

    /// A state of a key that is known, or with `public_key` the whole key.
    func put(_ request: ControlRequest) async throws -> Response {
        let keyID = try request.context.parameters.require("key")
        guard (1...64).contains(keyID.utf8.count) else {
            throw ControlProblem(.badRequest, "invalid_key", "The request is not valid", "expected a key id of 1 to 64 bytes")
        }
        let wish = try await request.body { reader -> Wish? in
            guard reader.has("public_key") else { return reader.choice("state", of: ProviderKey.State.self).map { .state($0) } }
            return Self.key(keyID, &reader)
        }
        switch wish {
        case .state(let state):
            guard simulator.set(state, keyID: keyID), let found = simulator.keyRing.states().first(where: { $0.key.keyID == keyID }) else {
                throw Self.unknown
            }
            return ControlAnswer.json { writer in writer.object { Self.write(found.key, found.state, to: &$0) } }
        case .whole(let key, let state):
            guard let isKnown = simulator.keyRing.add(key, state) else {
                throw ControlProblem(.conflict, "too_many_keys", "Too many keys", "DELETE some of GET /v1/keys")
            }
            return ControlAnswer.json(isKnown ? .ok : .created) { writer in writer.object { Self.write(key, state, to: &$0) } }
        }
    }

    func remove(_ request: ControlRequest) throws -> Response {
        guard simulator.keyRing.remove(keyID: try request.context.parameters.require("key")) else { throw Self.unknown }
        return ControlAnswer.noContent
    }

    private static let unknown = ControlProblem(.notFound, "unknown_key", "No such key", "GET /v1/keys lists those there are")

    private static func key(_ keyID: String, _ reader: inout JSONObjectReader) -> Wish? {
        let teamID = reader.string("team_id", maximumBytes: 64)
        let pem = reader.string("public_key", maximumBytes: 10_000, isProse: true)
        let names = reader.optionalStrings("environments", maximumCount: 2, maximumBytes: 16)
        let topics = reader.optionalStrings("topics", maximumCount: 400, maximumBytes: 255)
        let state = reader.optionalChoice("state", of: ProviderKey.State.self) ?? .active
        let environments = names?.compactMap { SimulatorEnvironment(rawValue: $0) } ?? SimulatorEnvironment.allCases
        if let names, environments.count != names.count || names.isEmpty {
            reader.problem("environments", "unsupported_value", "production, sandbox or both")
        }
        guard let teamID, let pem else { return nil }
        do throws(TLSError) {
            let publicKey = try ES256PublicKey(pem: pem)
            return .whole(
                ProviderKey(teamID: teamID, keyID: keyID, publicKey: publicKey, environments: Set(environments), topics: topics), state)
        } catch {
            reader.problem("public_key", "unsupported_value", "a public key on the curve P-256 in PEM, as openssl pkey -pubout writes it")
            return nil
        }
    }

    private static func write(_ key: ProviderKey, _ state: ProviderKey.State, to object: inout JSONWriter) {
        object.field("key_id", key.keyID)
        object.field("team_id", key.teamID)
        object.field("state", state.rawValue)
        object.field("environments", key.environments.map(\.rawValue).sorted())
        if let topics = key.topics { object.field("topics", topics) }
    }
}

enum ControlAnswer {
    static func json(_ status: HTTPResponse.Status = .ok, _ write: (inout JSONWriter) -> Void) -> Response {
        response(status, contentType: "application/json", write)
    }

    static func response(_ status: HTTPResponse.Status, contentType: String, _ write: (inout JSONWriter) -> Void) -> Response {
        var writer = JSONWriter()
        write(&writer)
        return Response(
            status: status, headers: [.contentType: contentType, .cacheControl: "no-store"],
            body: ResponseBody(byteBuffer: ByteBuffer(bytes: writer.bytes)))
    }

    static let noContent = Response(status: .noContent)
}
