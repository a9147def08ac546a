import Testing

@testable import APNs

@Suite("How many connections a pool wants")
struct PoolSizeTests {
    private func size(_ minimum: Int = 1, _ maximum: Int = 4) -> PoolSize {
        var rules = APNsPoolConfiguration()
        (rules.connections, rules.maximumConnections) = (minimum, maximum)
        return PoolSize(rules)
    }

    private func load(_ open: Int, of limit: Int, connections: Int = 1, waits: Bool = true) -> PoolSize.Load {
        PoolSize.Load(connections: connections, openStreams: open, streamLimit: limit, requestsWait: waits)
    }

    @Test("A pool grows up to its maximum and never beyond") func maximumSize() {
        var size = size()
        var changes = 0
        for second in 0..<100 where size.observe(load(1000, of: 1000), isSettled: true, now: start + .seconds(second)) == .grow {
            changes += 1
        }
        #expect(changes == 3)
        #expect(size.wanted == 4)
    }

    @Test("A moment without load starts the wait before growth again") func restartsWait() {
        var size = size()
        #expect(size.observe(load(1000, of: 1000), isSettled: true, now: start) == nil)
        #expect(size.observe(load(100, of: 1000), isSettled: true, now: start + .milliseconds(900)) == nil)
        #expect(size.observe(load(1000, of: 1000), isSettled: true, now: start + .milliseconds(1100)) == nil)
        #expect(size.observe(load(1000, of: 1000), isSettled: true, now: start + .milliseconds(2099)) == nil)
        #expect(size.observe(load(1000, of: 1000), isSettled: true, now: start + .milliseconds(2100)) == .grow)
    }

    @Test(
        "A pool is saturated when requests wait and its streams are nearly all in use",
        arguments: [(799, 1000, true, false), (800, 1000, true, true), (1, 1, true, true), (1000, 1000, false, false)])
    func saturation(open: Int, limit: Int, waits: Bool, isSaturated: Bool) {
        #expect(load(open, of: limit, waits: waits).isSaturated == isSaturated)
    }

    @Test(
        "A pool needs one connection less if half of the others' streams would do",
        arguments: [
            (500, 2000, 2, false, true), (501, 2000, 2, false, false), (1000, 3000, 3, false, true), (0, 2000, 2, true, false),
            (0, 1000, 1, false, false),
        ])
    func oneLess(open: Int, limit: Int, connections: Int, waits: Bool, fits: Bool) {
        #expect(load(open, of: limit, connections: connections, waits: waits).fitsInOneLess == fits)
    }

    @Test("A pool that is not settled does not change its size") func unsettled() {
        var size = size()
        for second in 0..<100 { #expect(size.observe(load(9, of: 9), isSettled: false, now: start + .seconds(second)) == nil) }
        #expect(size.wanted == 1)
    }
}
