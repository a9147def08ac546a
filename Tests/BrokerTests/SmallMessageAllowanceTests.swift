import Testing

@testable import Broker

@Suite("More than the prefetch while messages are small", .timeLimit(.minutes(5)))
struct SmallMessageAllowanceTests {
    private func allowance(after sizes: [Int], more: UInt16 = 300) -> SmallMessageAllowance {
        var allowance = SmallMessageAllowance(prefetch: 200, more: more)
        for size in sizes { allowance.received(size) }
        return allowance
    }

    @Test func beginsOnceThePrefetchIsUsedUpBySmallMessages() {
        var small = allowance(after: Array(repeating: 400, count: 40))
        #expect(small.change(unsettled: 199) == nil)
        #expect(small.change(unsettled: 200) == .begin && small.isTaken)
        #expect(small.change(unsettled: 500) == nil)
        #expect(small.change(unsettled: 1) == nil && small.isTaken)
    }

    @Test func doesNotBeginForLargeOnesForTheFirstFewOrWhereNobodyWantsIt() {
        var large = allowance(after: Array(repeating: 1100, count: 1000))
        var few = allowance(after: [10, 10, 10])
        var unwanted = allowance(after: Array(repeating: 10, count: 1000), more: 0)
        #expect(large.change(unsettled: 200) == nil && few.change(unsettled: 200) == nil && unwanted.change(unsettled: 200) == nil)
    }

    @Test func endsWhenMessagesGrowAndWhenNothingIsLeft() {
        var growing = allowance(after: Array(repeating: 10, count: 100))
        #expect(growing.change(unsettled: 200) == .begin)
        var later = growing
        for _ in 0..<16 { growing.received(8_000) }
        #expect(growing.change(unsettled: 500) == .end && !growing.isTaken)
        #expect(growing.change(unsettled: 500) == nil)

        #expect(later.change(unsettled: 0) == .end)
        #expect(later.change(unsettled: 200) == .begin)
        later.reset()
        #expect(!later.isTaken && later.change(unsettled: 500) == nil)
    }

    @Test func aLargeMessageNowAndThenChangesNothing() {
        var mixed = allowance(after: Array(repeating: 300, count: 100))
        #expect(mixed.change(unsettled: 200) == .begin)
        for round in 0..<1000 {
            mixed.received(round % 20 == 0 ? 8_000 : 300)
            #expect(mixed.change(unsettled: 500) == nil)
        }
    }
}
