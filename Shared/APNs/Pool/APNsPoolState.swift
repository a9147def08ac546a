/// The state of a pool, for readiness and alarms. A caller may submit in any state: batches that cannot be sent come back at once.
package enum APNsPoolState: Equatable, Sendable {
    /// There is work and no connection; trying.
    case connecting
    /// At least one connection can be used.
    case ready
    /// No work yet, or for long, so there is no connection; the next batch opens one.
    case idle
    /// APNs refuses the credential, for its reason. Probed again and again, ever more rarely, with one connection and one request.
    case paused(reason: String)
    /// The breaker is open: APNs answered connection after connection with 5xx. Probed as a paused pool is.
    case unavailable(reason: String)
    case closed

    /// For metric labels: from a closed set.
    package var label: String {
        switch self {
        case .connecting: "connecting"
        case .ready: "ready"
        case .idle: "idle"
        case .paused: "paused"
        case .unavailable: "unavailable"
        case .closed: "closed"
        }
    }
}

/// An event for logs and metrics. Never a token, an id or a payload.
package enum APNsPoolEvent: Equatable, Sendable {
    case stateChanged(APNsPoolState)
    case connectionOpened(address: String)
    /// The first answer that shows that APNs accepts the credential.
    case connectionProven(address: String)
    /// No connection was made; `reason` names the step that failed.
    case connectionFailed(address: String?, reason: String)
    /// The connection takes no new requests; a replacement is on its way. `reason` is APNs' or ours.
    case connectionRetired(address: String, reason: String)
    case connectionClosed(address: String, reason: String)
}
