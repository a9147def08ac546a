import Testing

@testable import APNs

@Suite("What a pool has counted")
struct PoolTotalsTests {
    @Test("An answer that came before its request, by a clock that was set back meanwhile, took no time")
    func clockSetBack() {
        var totals = APNsPoolSnapshot.Totals()
        for milliseconds in [-3_600_000, 40] as [Int64] { totals.countAnswer(after: milliseconds) }
        #expect(totals.latencySumMilliseconds == 40)
        #expect(totals.latency.reduce(0, +) == 2)
    }
}
