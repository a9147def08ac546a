/// How a pool is, for readiness and alarms. What to hand it does not depend on it: batches that cannot be sent come back at once.
package enum APNsPoolState: Equatable, Sendable {
    /// There is work and no connection; trying.
    case connecting
    /// At least one connection can be used.
    case ready
    /// Nothing to do yet, or for long, so there is no connection; the next batch opens one.
    case idle
    /// APNs refuses the credential, in its words. Probed again and again, ever more rarely, with one connection and one request.
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

/// What the owner of a pool may want to log or count. Never a token, an id or a payload.
package enum APNsPoolEvent: Equatable, Sendable {
    case stateChanged(APNsPoolState)
    case connectionOpened(address: String)
    /// The first answer that says that APNs knows us.
    case connectionProven(address: String)
    /// No connection came about; `reason` names the step that failed.
    case connectionFailed(address: String?, reason: String)
    /// The connection takes no new requests; a replacement is on its way. `reason` as APNs or we put it.
    case connectionRetired(address: String, reason: String)
    case connectionClosed(address: String, reason: String)
}
