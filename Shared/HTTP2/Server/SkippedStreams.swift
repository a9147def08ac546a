/// Numbers of streams that a client left out: the last few gaps. A client that leaves none out costs nothing here.
struct SkippedStreams {
    private static let maximumGaps = 32

    private var gaps: [ClosedRange<Int32>] = []
    private var last: Int32 = -1

    /// A stream was opened.
    mutating func note(_ stream: Int32) {
        defer { last = stream }
        guard last + 2 < stream else { return }
        if gaps.count == Self.maximumGaps { gaps.removeFirst() }
        gaps.append(last + 2...stream - 2)
    }

    func contains(_ stream: Int32) -> Bool {
        !gaps.isEmpty && stream < last && gaps.contains { $0.contains(stream) && (stream & 1) == 1 }
    }
}
