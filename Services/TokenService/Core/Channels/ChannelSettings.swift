/// How the registry of channels works with the dispatchers.
package struct ChannelSettings: Equatable, Sendable {
    /// From one list of a scope's channels at Apple to the next.
    package var listInterval: Duration
    /// For so long a dispatcher may begin a command, and for as long again it may work on it.
    package var commandTimeout: Duration

    /// After a refusal that may pass.
    var retryDelay: Duration { commandTimeout * 2 }
}

extension Duration {
    var milliseconds: Int64 { Int64(self / .milliseconds(1)) }
}
