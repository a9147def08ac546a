import Testing

@testable import Broker

@Suite("The pause before the next attempt to connect")
struct ReconnectDelayTests {
    @Test func growsToTenSecondsIsNeverUnderATenthAndNeverTheSameForAll() {
        var longest = Duration.zero
        var seen: Set<Duration> = []
        for _ in 0..<500 {
            var delay = ReconnectDelay()
            let first = delay.next()
            #expect(first >= .milliseconds(100) && first <= .milliseconds(200))
            for _ in 0..<20 {
                let next = delay.next()
                #expect(next >= .milliseconds(100) && next <= .seconds(10))
                longest = max(longest, next)
                seen.insert(next)
            }
        }
        #expect(longest > .seconds(9))
        #expect(seen.count > 5000)
    }
}
