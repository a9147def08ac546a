import Testing

@testable import Broker

@Suite("The pause before the next attempt to connect")
struct ReconnectDelayTests {
    @Test("The pause grows to two seconds, is never under a tenth, and differs between clients") func pauses() {
        var longest = Duration.zero
        var seen: Set<Duration> = []
        for _ in 0..<500 {
            var delay = ReconnectDelay()
            let first = delay.next()
            #expect(first >= .milliseconds(100) && first <= .milliseconds(200))
            for _ in 0..<20 {
                let next = delay.next()
                #expect(next >= .milliseconds(100) && next <= .seconds(2))
                longest = max(longest, next)
                seen.insert(next)
            }
        }
        #expect(longest > .milliseconds(1800))
        #expect(seen.count > 5000)
    }

    @Test("The delay reports how many attempts failed and how long the outage took") func reportsOutage() {
        var delay = ReconnectDelay()
        let start = ContinuousClock.now
        #expect(delay.connected(now: start) == nil)
        for seconds in [0, 3, 7] { _ = delay.next(now: start + .seconds(seconds)) }
        #expect(delay.failures == 3)
        let outage = delay.connected(now: start + .seconds(8))
        #expect(outage?.failures == 3 && outage?.outage == .seconds(8))
        #expect(delay.failures == 0 && delay.connected() == nil)
    }

    @Test("A connection that does not last does not make the pauses short again") func shortLife() {
        for (age, isShort) in [(Duration.seconds(1), false), (.seconds(10), true)] {
            var longest = Duration.zero
            for _ in 0..<200 {
                var delay = ReconnectDelay()
                let start = ContinuousClock.now
                for _ in 0..<8 { _ = delay.next(now: start) }
                _ = delay.connected(now: start)
                longest = max(longest, delay.next(now: start + age))
            }
            #expect((longest <= .milliseconds(200)) == isShort, "after \(age)")
        }
    }
}
