/// Live Activities, in-process. Over HTTP it is `/v1/devices/{token}/activities`.
extension APNsSimulator {
    /// Those that the device remembers, the oldest first; empty for a device that was never installed.
    package func activities(_ token: String) throws(SimulatorError) -> [ActivitySummary] {
        world.activities(of: try Self.key(token), now: configuration.clock())?.activities ?? []
    }

    /// Suspends until the device's activities have changed `count` times since it was installed, or `timeout` has passed.
    package func activities(
        _ token: String, changes count: Int, timeout: Duration = .seconds(30)
    ) async throws(SimulatorError) -> [ActivitySummary] {
        _ = await world.wait(for: .activityChanges(try Self.key(token), count: Int64(count)), timeout: timeout)
        return try activities(token)
    }

    /// The app on the device starts one.
    /// - Parameter channelID: It follows this channel; else it gets an update token.
    /// - Returns: nil without such a device or channel, and if the id is taken.
    package func startActivity(
        _ attributesType: String, on token: String, id: String? = nil, attributes: String = "{}", contentState: String? = nil,
        channelID: String? = nil
    ) throws(SimulatorError) -> ActivitySummary? {
        let local = World.LocalStart(
            id: id, topic: [], attributesType: attributesType, attributes: attributes, contentState: contentState,
            updates: channelID.map { .channel($0) } ?? .token)
        let now = configuration.clock()
        guard case .done(let id) = world.start(local, on: try Self.key(token), now: now) else { return nil }
        return try activities(token).last { $0.id == id }
    }

    /// The system gives it another update token.
    /// - Returns: The new token; nil if the activity has none, or is over.
    package func rotateActivity(_ id: String, on token: String) throws(SimulatorError) -> String? {
        guard case .done = world.rotateActivity(id, on: try Self.key(token), to: nil, now: configuration.clock()) else { return nil }
        return try activities(token).last { $0.id == id }?.updateToken
    }

    /// The person dismisses it.
    @discardableResult
    package func dismissActivity(_ id: String, on token: String) throws(SimulatorError) -> Bool {
        if case .done = world.dismissActivity(id, on: try Self.key(token), now: configuration.clock()) { true } else { false }
    }
}
