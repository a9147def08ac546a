/// What is done with broadcast channels at Apple (Apple: Sending channel management requests to APNs).
package enum ChannelOperation: String, Sendable, CaseIterable {
    case create, read, delete, list
}

/// The broadcasts that APNs keeps for devices that are offline. A channel has one rule for its whole life.
package enum ChannelStorage: String, Sendable, CaseIterable {
    case none
    /// The newest one, for at most eight hours.
    case latest
}
