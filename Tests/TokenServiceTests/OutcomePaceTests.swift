import Testing

@testable import TokenServiceOutcomes

@Suite("How long outcomes wait for company")
struct OutcomePaceTests {
    private let start = ContinuousClock.now

    @Test("A lone outcome waits for nothing") func loneOutcome() {
        var pace = OutcomePace(deliveries: 1000, messages: 100)
        #expect(pace.wait(at: start) == .zero)
        pace.begin(at: start)
        #expect(pace.wait(at: start + OutcomePace.interval) == .zero)
        #expect(pace.wait(at: start + .seconds(3600)) == .zero)
    }

    @Test("The next outcomes wait for the rest of the interval") func nextOutcomes() {
        var pace = OutcomePace(deliveries: 1000, messages: 100)
        pace.begin(at: start)
        #expect(pace.wait(at: start) == OutcomePace.interval)
        #expect(pace.wait(at: start + .milliseconds(10)) == OutcomePace.interval - .milliseconds(10))
        pace.begin(at: start + .milliseconds(30))
        #expect(pace.wait(at: start + .milliseconds(30)) == OutcomePace.interval)
    }

    @Test(
        "Enough deliveries or enough messages pay for a transaction",
        arguments: [(1, 1, false), (999, 99, false), (1000, 1, true), (1, 100, true), (0, 0, false)]
    )
    func enoughOutcomes(deliveries: Int, messages: Int, pays: Bool) {
        let pace = OutcomePace(deliveries: 1000, messages: 100)
        #expect(pace.pays(deliveries: deliveries, messages: messages) == pays)
    }
}
