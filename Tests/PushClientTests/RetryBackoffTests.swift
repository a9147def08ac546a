import Testing

@testable import PushClient

@Suite struct RetryBackoffTests {
    @Test func theBoundDoublesUpToAQuarterOfAnHour() {
        var delay = RetryBackoff()
        let bounds = (0..<12).map { _ in delay.next(random: 1, retryAfter: nil) }
        #expect(bounds.prefix(4) == [.seconds(1), .seconds(2), .seconds(4), .seconds(8)])
        #expect(bounds.suffix(2) == [.seconds(900), .seconds(900)])
    }

    @Test func theJitterIsFull() {
        var delay = RetryBackoff()
        #expect(delay.next(random: 0, retryAfter: nil) == .zero)
        #expect(delay.next(random: 0.5, retryAfter: nil) == .seconds(1))
    }

    @Test func retryAfterIsTheLeast() {
        var delay = RetryBackoff()
        #expect(delay.next(random: 0, retryAfter: .seconds(7)) == .seconds(7))
        #expect(delay.next(random: 0, retryAfter: .seconds(1_000_000)) == .seconds(86_400))
        delay.reset()
        #expect(delay.next(random: 1, retryAfter: nil) == .seconds(1))
    }
}
