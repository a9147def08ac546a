/// MAX_CONCURRENT_STREAMS as it was announced and as the client knows it. A new value binds the client once it has acknowledged it (RFC
/// 9113 section 6.5.3); until then it may rely on any value that is on its way, and on the one before.
struct AnnouncedStreams {
    /// Of the newest SETTINGS.
    private(set) var latest: Int
    /// Before the first acknowledgement a client may open any number (RFC 9113 section 6.5.2).
    private var acknowledged = Int.max
    private var announcedFrames: UInt64 = 0
    private var acknowledgedFrames: UInt64 = 0
    /// On their way, oldest first, without those that a later one exceeds: at most one for each different value.
    private var greatest: [(frame: UInt64, limit: Int)] = []
    /// Of frames that have not left yet, oldest first.
    private var unsent: [Int] = []

    init(_ limit: Int) {
        latest = limit
        announce(limit)
    }

    /// One SETTINGS frame follows; each carries the limit.
    mutating func announce(_ limit: Int) {
        latest = limit
        announcedFrames += 1
        unsent.append(limit)
        while let last = greatest.last, last.limit <= limit { greatest.removeLast() }
        greatest.append((announcedFrames, limit))
    }

    /// The limit in the next frame.
    mutating func takeUnsent() -> Int { unsent.isEmpty ? latest : unsent.removeFirst() }

    mutating func acknowledge() {
        guard acknowledgedFrames < announcedFrames else { return }
        acknowledgedFrames += 1
        // One on its way exceeds a missing value.
        acknowledged = greatest.first?.frame == acknowledgedFrames ? greatest.removeFirst().limit : 0
    }

    /// The most streams that the client may rely on.
    var greatestBelievable: Int { max(acknowledged, greatest.first?.limit ?? 0) }
}
