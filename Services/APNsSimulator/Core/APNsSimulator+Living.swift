/// Devices' own actions, in-process. Over HTTP it is `POST /v1/devices/{token}/actions`.
extension APNsSimulator {
    /// While a device is off, its pushes are accepted, and the last of each topic waits; once it is on, it shows them.
    @discardableResult
    package func setOnline(_ isOnline: Bool, _ token: String) throws(SimulatorError) -> Bool {
        try perform(isOnline ? .comeOnline : .goOffline, on: token) == .done
    }

    /// The app is deleted and installed again under another token; the old one is 410 from now on.
    /// - Returns: false if the old token is unknown or the new one belongs to another device.
    @discardableResult
    package func reinstall(_ token: String, as other: String) throws(SimulatorError) -> Bool {
        try perform(.reinstall(as: Self.key(other)), on: token) == .done
    }

    /// From now on pushes to the token are answered 410 `ExpiredToken`. The app and its lock screen stay.
    @discardableResult
    package func expire(_ token: String) throws(SimulatorError) -> Bool {
        try perform(.expire(since: configuration.clock()), on: token) == .done
    }

    /// As `reinstall`, but the lock screen stays: the system has issued another token.
    @discardableResult
    package func rotate(_ token: String, to other: String) throws(SimulatorError) -> Bool {
        try perform(.rotate(to: Self.key(other)), on: token) == .done
    }

    /// The user opens the app: the lock screen is empty.
    @discardableResult
    package func open(_ token: String) throws(SimulatorError) -> Bool {
        try perform(.open, on: token) == .done
    }

    /// - Parameter throttle: nil takes the limit away.
    package func setThrottle(_ throttle: Throttle?, _ token: String) throws(SimulatorError) {
        let key = try Self.key(token)
        world.change { $0.records[key]?.installation?.throttle = throttle }
    }

    func perform(_ deed: World.Deed, on token: String) throws(SimulatorError) -> World.DeedResult {
        world.perform(deed, on: try Self.key(token), now: configuration.clock())
    }
}
