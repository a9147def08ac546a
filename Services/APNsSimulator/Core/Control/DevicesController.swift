import HTTPTypes
import Hummingbird
import StrictJSON

/// Devices and the notifications that they show.
struct DevicesControl {
    private enum State: String, CaseIterable {
        case installed, uninstalled, expired

        func state(since: Int64) -> Device.State {
            switch self {
            case .installed: .installed
            case .uninstalled: .uninstalled(since: since)
            case .expired: .expired(since: since)
            }
        }
    }

    let simulator: APNsSimulator

    func list(_ request: ControlRequest) throws -> Response {
        try DeviceList(request).response(from: simulator)
    }

    func put(_ request: ControlRequest) async throws -> Response {
        let token = try request.token()
        let now = simulator.configuration.clock()
        let installation = try await request.body { reader -> TokenRecord.Installation? in
            let environment = reader.choice("environment", of: SimulatorEnvironment.self)
            let topics = reader.optionalStrings("topics", maximumCount: 100, maximumBytes: 255)
            let state = reader.optionalChoice("state", of: State.self) ?? .installed
            let since = reader.optionalInteger("uninstalled_at_ms", in: 0...Self.latestMoment)
            let name = reader.optionalString("name", maximumBytes: 200)
            let isOnline = reader.optionalBool("online") ?? true
            let pushesUntilGone = reader.optionalInteger("pushes_until_gone", in: 0...1_000_000) ?? 0
            let throttle = Self.throttle(&reader)
            let startTokens = reader.optionalObjects("start_tokens", maximumCount: 100)?.compactMap { Self.startToken($0) }
            let hasFrequentUpdates = reader.optionalBool("frequent_updates") ?? false
            guard let environment else { return nil }
            var device = TokenRecord.Installation(
                environment: environment, topics: topics?.map { Array($0.utf8) }, state: state.state(since: since ?? now), name: name)
            device.isOnline = isOnline
            device.pushesUntilGone = Int(pushesUntilGone)
            device.throttle = throttle
            device.startTokens = startTokens ?? []
            device.hasFrequentUpdates = hasFrequentUpdates
            return device
        }
        switch simulator.world.put(installation, for: token, now: now) {
        case .made: return try read(token, status: .created)
        case .changed: return try read(token)
        case .taken:
            throw ControlProblem(.conflict, "token_taken", "A token is taken", "the token, or a start token, belongs to another device")
        }
    }

    /// `token`: if absent, one is made.
    private static func startToken(_ fields: JSONObjectReader) -> (token: TokenKey, attributesType: String)? {
        var reader = fields
        let type = reader.string("attributes_type", maximumBytes: 200)
        let text = reader.optionalString("token", maximumBytes: 2 * TokenKey.maximumBytes)
        reader.finish()
        guard let token = text.map({ TokenKey(hex: $0) }) ?? Activities.newToken() else {
            reader.problem("token", "unsupported_value", "not an even number of hex digits")
            return nil
        }
        return type.map { (token, $0) }
    }

    /// Shows the device. With `wait_accepted`, it answers when that many pushes were accepted for it, or when `timeout_seconds` have
    /// passed.
    func get(_ request: ControlRequest) async throws -> Response {
        let token = try request.token()
        if let count = try request.number("wait_accepted", in: 0...10_000_000), simulator.world.device(token) != nil {
            let timeout = try request.number("timeout_seconds", in: 0...600) ?? 30
            _ = await simulator.world.wait(for: .accepted(token, count: count), timeout: .seconds(timeout))
        }
        return try read(token)
    }

    private static func throttle(_ reader: inout JSONObjectReader) -> Throttle? {
        guard var fields = reader.optionalObject("throttle") else { return nil }
        let pushes = fields.integer("pushes", in: 0...1_000_000)
        let milliseconds = fields.integer("per_ms", in: 1...86_400_000)
        fields.finish()
        guard let pushes, let milliseconds else { return nil }
        return Throttle(pushes: pushes, milliseconds: milliseconds)
    }

    func read(_ token: TokenKey, status: HTTPResponse.Status = .ok) throws -> Response {
        guard let device = simulator.world.device(token) else { throw ControlProblem.unknownDevice }
        return ControlAnswer.json(status) { $0.object { Self.writeFields(device, to: &$0) } }
    }

    func remove(_ token: TokenKey) -> Response {
        _ = simulator.world.remove(token, now: simulator.configuration.clock())
        return ControlAnswer.noContent
    }

    /// The year 10000.
    static let latestMoment: Int64 = 253_402_300_799_999

    static func writeFields(_ summary: DeviceSummary, to object: inout JSONWriter) {
        object.field("token", summary.device.token)
        object.field("environment", summary.device.environment.rawValue)
        if let topics = summary.device.topics { object.field("topics", topics) }
        switch summary.device.state {
        case .installed: object.field("state", "installed")
        case .uninstalled(let since):
            object.field("state", "uninstalled")
            object.field("uninstalled_at_ms", since)
        case .expired(let since):
            object.field("state", "expired")
            object.field("uninstalled_at_ms", since)
        }
        object.field("online", summary.device.isOnline)
        if let throttle = summary.device.throttle {
            object.object("throttle") { entry in
                entry.field("pushes", throttle.pushes)
                entry.field("per_ms", throttle.milliseconds)
            }
        }
        if !summary.device.channels.isEmpty { object.field("channels", summary.device.channels) }
        if !summary.device.startTokens.isEmpty {
            object.array("start_tokens") { array in
                for start in summary.device.startTokens {
                    array.object { entry in
                        entry.field("attributes_type", start.attributesType)
                        entry.field("token", start.token)
                    }
                }
            }
        }
        if summary.device.hasFrequentUpdates { object.field("frequent_updates", true) }
        object.field("name", summary.device.name)
        object.field("badge", summary.badge)
        object.field("accepted", summary.acceptedCount)
        object.field("inbox", summary.inboxCount)
        object.field("stored", summary.storedCount)
        object.field("activity_count", summary.activityCount)
        object.field("missed", summary.missedCount)
        object.field("script_remaining", summary.scriptRemaining)
    }
}
