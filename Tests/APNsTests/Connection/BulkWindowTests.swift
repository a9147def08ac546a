import Testing

@testable import APNs

@Suite("How many bulk requests a connection may have in flight")
struct BulkWindowTests {
    /// A peer that takes `delay` for each answer, works on one request at a time for `service`, and gets as many from each connection as that
    /// may send.
    private struct Peer {
        var delay: Int64
        var service: Int64
        private(set) var now: Int64 = 0
        private var freeAt: Int64 = 0
        private var underWay: [(sentAt: Int64, answeredAt: Int64, connection: Int)] = []
        private var first = 0

        init(delay: Int64, service: Int64) {
            self.delay = delay
            self.service = service
        }

        /// - Returns: the most that were in flight.
        mutating func answer(_ requests: Int, _ windows: inout [BulkWindow]) -> Int {
            var most = 0
            for _ in 0..<requests {
                for place in windows.indices {
                    while windows[place].room > 0, windows[place].inFlight < 938 {
                        freeAt = max(freeAt, now) + service
                        underWay.append((now, freeAt + delay, place))
                        windows[place].sent()
                    }
                }
                most = max(most, underWay.count - first)
                let next = underWay[first]
                first += 1
                now = max(now, next.answeredAt)
                windows[next.connection].ended()
                windows[next.connection].answered(sentAt: next.sentAt, now: now)
            }
            return most
        }
    }

    @Test("Where answers do not wait for each other, every stream is used", arguments: [2_000, 20_000, 100_000] as [Int64])
    func usesEveryStream(delay: Int64) {
        var windows = [BulkWindow()]
        var peer = Peer(delay: delay, service: 0)
        _ = peer.answer(20_000, &windows)
        #expect(windows[0].limit >= 938)
        let most = peer.answer(10_000, &windows)
        #expect(most == 938)
    }

    @Test("Where they do, the wait stays within what is tolerated, and the peer always has work", arguments: [7, 100] as [Int64])
    func boundsTheWait(service: Int64) {
        var windows = [BulkWindow()]
        var peer = Peer(delay: 300, service: service)
        _ = peer.answer(100_000, &windows)
        let begin = peer.now
        let most = peer.answer(50_000, &windows)
        let alone = 300 + 32 * service
        #expect(Int64(most) * service <= 2 * (2 * alone + 1_000), "the peer's queue, in microseconds")
        #expect(peer.now - begin <= 50_000 * service * 11 / 10, "no time is lost")
    }

    @Test("Connections that share a busy peer do not drive each other up")
    func sharesAPeer() {
        var windows = [BulkWindow](repeating: BulkWindow(), count: 3)
        var peer = Peer(delay: 300, service: 100)
        let alone: Int64 = 300 + 3 * 32 * 100
        // Forty seconds: some measurements.
        for _ in 0..<4 {
            let most = peer.answer(100_000, &windows)
            #expect(Int64(most) * 100 <= 2 * (2 * alone + 1_000), "the peer's queue, in microseconds")
        }
    }

    @Test("A path that became longer is believed after a while")
    func forgetsAnOldPath() {
        var windows = [BulkWindow()]
        var peer = Peer(delay: 5_000, service: 0)
        _ = peer.answer(20_000, &windows)
        peer.delay = 80_000
        _ = peer.answer(400_000, &windows)
        #expect(windows[0].limit >= 938)
    }

    @Test("Some may always be in flight, and what ends makes room")
    func hasAFloor() {
        var window = BulkWindow()
        for _ in 0..<32 { window.answered(sentAt: 0, now: 100) }
        for step in 1...1_000 as ClosedRange<Int64> { window.answered(sentAt: step * 100, now: step * 100 + 1_000_000) }
        #expect(window.limit == 32)
        for _ in 0..<32 { window.sent() }
        #expect(window.room == 0)
        window.ended()
        #expect(window.room == 1)
    }
}
