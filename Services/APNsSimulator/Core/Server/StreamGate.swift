/// How many streams a connection may have open: as APNs was seen to announce in SETTINGS (docs/apns.md, Streams).
///
/// One until a request has shown a valid token; one again after a 4xx, until a push is accepted. Pure: it returns the number to announce.
struct StreamGate {
    /// `STREAM_GATE`: one stream until authenticated.
    private let isGated: Bool
    /// `STREAM_PENALTY`: one stream after a 4xx.
    private let isPenalised: Bool
    private var full: UInt32
    private var isAuthenticated = false
    private var isPunished = false
    /// How many rejections there were in a row.
    private(set) var rejections = 0
    /// The number that was announced last.
    private(set) var limit: UInt32

    init(streams: UInt32, isGated: Bool, isPenalised: Bool) {
        full = streams
        self.isGated = isGated
        self.isPenalised = isPenalised
        limit = isGated ? min(1, streams) : streams
    }

    /// - Parameter status: An answer's status; nil if the push is never answered. Only a 4xx lowers the limit, and only a success restores
    ///   it.
    /// - Returns: The limit to announce, if it changes.
    mutating func answered(status: Int?, isAuthenticated: Bool) -> UInt32? {
        self.isAuthenticated = isAuthenticated
        switch status {
        case .some(200..<300):
            isPunished = false
            rejections = 0
        // A token that is gone does not count as an error.
        case 410: break
        case .some(400..<500):
            isPunished = isPenalised
            rejections += 1
        default: break
        }
        return change()
    }

    /// Sets the full limit, as APNs does when its load changes. Streams that are open stay open.
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
