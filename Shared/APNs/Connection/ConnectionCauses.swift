/// Why a connection takes no new requests.
enum RetireCause: Equatable, Sendable {
    /// GOAWAY; the reason from its JSON, where there was one (docs/apns.md, Connections).
    case goAway(reason: String?)
    /// 5xx, or another answer after which the connection is not to be trusted.
    case answered(status: Int, reason: String?)
    /// ExpiredProviderToken, UnrelatedKeyIdInToken: no new token helps on this connection (docs/apns.md, Provider tokens).
    case wedged(reason: String)
    /// APNs refuses the credential: another connection would get the same answer.
    case credential(reason: String)
    case timeouts
    /// APNs reset streams instead of answering, or refused many.
    case resets
    /// nghttp2 took no request, for a reason of this process's own; its error text.
    case library(String)
    case age
    case streamIDsUsedUp
    /// The pool's decision: pause, idle limit or shutdown.
    case poolDecided

    /// Our own label for a TLS alert about our certificate.
    static let certificateRefused = "certificate_refused"

    var label: String {
        switch self {
        case .goAway(let reason): "goaway" + (reason.map { " " + $0 } ?? "")
        case .answered(let status, let reason): "\(status)" + (reason.map { " " + $0 } ?? "")
        case .wedged(let reason), .credential(let reason): reason
        case .timeouts: "timeouts"
        case .resets: "resets"
        case .library(let what): what
        case .age: "age"
        case .streamIDsUsedUp: "stream_ids_used_up"
        case .poolDecided: "pool_decided"
        }
    }

    /// The ``label`` from a closed set: texts of the peer must not make metrics grow.
    var metricLabel: String {
        switch self {
        case .goAway(let reason): "goaway" + (reason.flatMap(APNsReason.init(rawValue:)).map { " " + $0.rawValue } ?? "")
        case .answered(let status, let reason):
            (500...599).contains(status) ? "5xx" : reason.flatMap(APNsReason.init(rawValue:))?.rawValue ?? "answer"
        case .credential(Self.certificateRefused): Self.certificateRefused
        case .wedged(let reason), .credential(let reason): APNsReason(rawValue: reason)?.rawValue ?? "credential"
        case .library: "library"
        case .timeouts, .resets, .age, .streamIDsUsedUp, .poolDecided: label
        }
    }

    /// The address did not serve well: try it last for a while.
    var blamesAddress: Bool {
        switch self {
        case .goAway, .answered, .timeouts, .resets: true
        case .wedged, .credential, .library, .age, .streamIDsUsedUp, .poolDecided: false
        }
    }
}

/// Why a connection is over.
enum CloseCause: Equatable, Sendable {
    /// Retired, and everything in flight has its answer.
    case drained
    /// The peer ended it, or the socket failed.
    case lost(String)
    case pingTimeout
    /// No SETTINGS in time.
    case silentPeer
    /// nghttp2 could not go on, for a reason of this process's own; its error text.
    case library(String)
    /// The pool's shutdown deadline.
    case cutOff

    var label: String {
        switch self {
        case .drained: "drained"
        case .lost(let what): what
        case .pingTimeout: "ping_timeout"
        case .silentPeer: "silent_peer"
        case .library(let what): what
        case .cutOff: "cut_off"
        }
    }

    var blamesAddress: Bool {
        switch self {
        case .lost, .pingTimeout, .silentPeer: true
        case .drained, .library, .cutOff: false
        }
    }
}
