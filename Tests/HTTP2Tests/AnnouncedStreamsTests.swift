import TestSupport
import Testing

@testable import HTTP2

@Suite("HTTP/2: the limits that a client can know of")
struct AnnouncedStreamsTests {
    /// Compares with a list of all limits that are on their way.
    @Test("A client may rely on the greatest limit that it can know", arguments: [1, 2, 3] as [UInt64]) func greatestLimit(_ seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        var limits = AnnouncedStreams(10)
        var onTheWay = [10]
        var known = Int.max
        var mistakes = 0
        for _ in 0..<2000 {
            let draw = Int(random.next() % 12)
            if draw < 6 {
                limits.announce(draw)
                onTheWay.append(draw)
            } else {
                limits.acknowledge()
                if let first = onTheWay.first {
                    known = first
                    onTheWay.removeFirst()
                }
            }
            let greatest = onTheWay.max() ?? 0
            if limits.greatestBelievable != max(known, greatest) { mistakes += 1 }
        }
        #expect(mistakes == 0)
    }
}
