import Hummingbird
import StrictJSON

/// A user's or the system's actions on a device.
struct DeviceActionsControl {
    private enum Action: String, CaseIterable {
        case offline, online, open, uninstall, expire, reinstall, rotate
    }

    let simulator: APNsSimulator

    /// - `new_token` of `reinstall` and `rotate`: if absent, one is made.
    func post(_ request: ControlRequest) async throws -> Response {
        let token = try request.token()
        let now = simulator.configuration.clock()
        let (deed, successor) = try await request.body { reader -> (World.Deed, TokenKey?)? in
            guard let action = reader.choice("action", of: Action.self) else { return nil }
            return Self.deed(action, &reader, now: now)
        }
        switch simulator.world.perform(deed, on: token, now: now) {
        case .unknown: throw ControlProblem.unknownDevice
        case .taken: throw ControlProblem(.conflict, "token_taken", "The new token is taken", "a device with it is installed already")
        case .done: return try DevicesControl(simulator: simulator).read(successor ?? token)
        }
    }

    private static func deed(_ action: Action, _ reader: inout JSONObjectReader, now: Int64) -> (World.Deed, TokenKey?)? {
        switch action {
        case .offline: return (.goOffline, nil)
        case .online: return (.comeOnline, nil)
        case .open: return (.open, nil)
        case .uninstall:
            let since = reader.optionalInteger("at_ms", in: 0...DevicesControl.latestMoment) ?? now
            let pushes = reader.optionalInteger("pushes_until_gone", in: 0...1_000_000) ?? 0
            return (.uninstall(since: since, pushesUntilGone: Int(pushes)), nil)
        case .expire: return (.expire(since: reader.optionalInteger("at_ms", in: 0...DevicesControl.latestMoment) ?? now), nil)
        case .reinstall: return successor(&reader).map { (.reinstall(as: $0), $0) }
        case .rotate: return successor(&reader).map { (.rotate(to: $0), $0) }
        }
    }

    private static func successor(_ reader: inout JSONObjectReader) -> TokenKey? {
        guard let text = reader.optionalString("new_token", maximumBytes: 2 * TokenKey.maximumBytes) else { return TokenKey.random() }
        if let token = TokenKey(hex: text) { return token }
        reader.problem("new_token", "unsupported_value", "not an even number of hex digits")
        return nil
    }

    /// The channels that the device's Live Activities listen to: the whole list.
    func putChannels(_ request: ControlRequest) async throws -> Response {
        let token = try request.token()
        let channels = try await request.body { $0.strings("channels", maximumCount: 1000, maximumBytes: 200) }
        guard simulator.world.device(token) != nil else { throw ControlProblem.unknownDevice }
        if simulator.world.subscribe(token, to: channels, now: simulator.configuration.clock()) != nil {
            throw ControlProblem(
                .notFound, "unknown_channel", "Unknown channel", "one of the channels is not registered in the device's environment")
        }
        return try DevicesControl(simulator: simulator).read(token)
    }
}

extension TokenKey {
    /// - Parameter bytes: 32, as device tokens have been so far.
    static func random(bytes: Int = 32) -> TokenKey? {
        var generator = SystemRandomNumberGenerator()
        return TokenKey(
            hex: (0..<bytes).map { _ in
                let byte = generator.next() as UInt8
                return (byte < 16 ? "0" : "") + String(byte, radix: 16)
            }.joined())
    }
}
