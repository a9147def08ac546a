import Testing

@testable import Broker

@Suite("When a publisher renews a connection after refusals")
struct RenewalDelayTests {
    @Test("The first renewal is due at once, and later ones less and less often") func lessOften() {
        var delay = RenewalDelay()
        var now = ContinuousClock.now
        let begin = now
        var tried: [Duration] = []
        while begin.duration(to: now) <= .seconds(130) {
            delay.refused(now: now)
            if delay.isDue {
                delay.renewed(now: now)
                tried.append(begin.duration(to: now))
            }
            now += .milliseconds(500)
        }
        #expect(tried == [0, 1, 3, 7, 15, 31, 61, 91, 121].map { .seconds($0) })
    }

    @Test("The delay starts again after a minute without a refusal") func startsAgain() {
        var delay = RenewalDelay()
        let begin = ContinuousClock.now
        delay.refused(now: begin)
        delay.renewed(now: begin)
        delay.refused(now: begin + .milliseconds(500))
        #expect(!delay.isDue)
        delay.refused(now: begin + .seconds(70))
        delay.renewed(now: begin + .seconds(70))
        delay.refused(now: begin + .milliseconds(71_000))
        #expect(delay.isDue)
    }

    @Test("A renewal stays due until it is done") func staysDue() {
        var delay = RenewalDelay()
        delay.refused()
        delay.refused()
        #expect(delay.isDue)
    }
}
