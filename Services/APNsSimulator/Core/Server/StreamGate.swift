/// How many streams a connection may have open: what APNs is seen to announce in SETTINGS (APNS.md 5.2).
///
/// One until a request has shown a valid token; one again after a rejection, until a push is accepted. Pure: it says what to announce.
struct StreamGate {
    /// `STREAM_GATE`: one stream until authenticated.
    private let isGated: Bool
    /// `STREAM_PENALTY`: one stream after a rejection.
    private let isPenalised: Bool
    private var full: UInt32
    private var isAuthenticated = false
    private var isPunished = false
    /// What was announced last.
    private(set) var limit: UInt32

    init(streams: UInt32, isGated: Bool, isPenalised: Bool) {
        full = streams
        self.isGated = isGated
        self.isPenalised = isPenalised
        limit = isGated ? min(1, streams) : streams
    }

    /// - Parameter status: Of an answer; nil where the push is never answered, which neither punishes nor forgives.
    /// - Returns: The limit to announce, if it changes.
    mutating func answered(status: Int?, isAuthenticated: Bool) -> UInt32? {
        self.isAuthenticated = isAuthenticated
        switch status {
        case let status? where (200..<300).contains(status): isPunished = false
        // A token that is gone does not count as an error (APNS.md 4.2).
        case 410, nil: break
        default: isPunished = isPenalised
        }
        return change()
    }

    /// As APNs does when its load changes. Streams that are open stay open.
    mutating func setFull(_ streams: UInt32) -> UInt32? {
        full = streams
        return change()
    }

    private mutating func change() -> UInt32? {
        let isNarrow = isPunished || (isGated && !isAuthenticated)
        let wanted = isNarrow ? min(1, full) : full
        guard wanted != limit else { return nil }
        limit = wanted
        return wanted
    }
}
