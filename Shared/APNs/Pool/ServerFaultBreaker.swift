/// Distinguishes APNs' own outage from one broken connection (docs/apns.md, Answers): a 5xx replaces its connection. If several connections
/// in a row get only 5xx, the pool stops and probes with one request (Apple asks for 15 minutes).
struct ServerFaultBreaker: Sendable {
    /// Connections in a row, of which only the first had ever served.
    private static let limit = 3

    private var connections = 0

    /// Whether an answer means that APNs, and not this one server, has a fault.
    func counts(_ status: Int, _ reason: String?) -> Bool {
        status >= 500 && reason != APNsReason.shutdown.rawValue
    }

    /// A connection was replaced for a 5xx.
    /// - Parameter wasProven: it had served before, so it may be the only broken one.
    mutating func failed(wasProven: Bool) {
        connections = wasProven ? 1 : connections + 1
    }

    /// A connection got an answer that is none of APNs' faults.
    mutating func served() {
        connections = 0
    }

    var isOpen: Bool { connections >= Self.limit }
}
