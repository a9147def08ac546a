import PushModel
import Testing

@Suite("Retry-After")
struct RetryAfterTests {
    /// Sun, 06 Nov 1994 08:49:37 GMT.
    private static let now: Int64 = 784_111_777_000

    @Test(
        "It is seconds, or a date in one of the three forms of RFC 9110 section 5.6.7, and never more than a day",
        arguments: [
            ("0", 0), ("120", 120), ("86400", 86_400), ("86401", 86_400), ("99999999999", 86_400), ("99999999999999999999", 86_400),
            ("Sun, 06 Nov 1994 08:50:37 GMT", 60), ("Sunday, 06-Nov-94 08:50:37 GMT", 60), ("Sun Nov  6 08:50:37 1994", 60),
            ("Wed Nov 16 08:49:37 1994", 86_400), ("Thu, 06 Nov 2094 08:49:37 GMT", 86_400), ("Monday, 07-Nov-94 08:49:36 GMT", 86_399),
        ])
    func isSecondsOrADate(text: String, seconds: Int) {
        #expect(RetryAfter.duration(text, now: Self.now) == .seconds(seconds))
    }

    @Test(
        "Any other value, and a time that has passed, is ignored",
        arguments: [
            "", "-1", "1.5", "soon", "Sun, 06 Nov 1994 08:49:37 GMT", "Sun, 06 Foo 1994 08:50:37 GMT", "Sunday, 06-Nov-93 08:49:37 GMT",
            "Sunday, 06-Nov-1994 08:50:37 GMT", "Sun Nov  6 08:49:36 1994", "Sun, 31 Feb 1995 00:00:00 GMT",
            "Sun, 06 Nov 1994 08:50:37 CET",
            "Sun, 06 Nov 1994 08:50:37", "Nov  6 08:50:37 1994",
        ])
    func isNothingElse(text: String) {
        #expect(RetryAfter.duration(text, now: Self.now) == nil)
    }

    @Test("Two digits of a year mean the last such year that is at most fifty years ahead")
    func readsShortYears() {
        // 2026-11-21T00:00:00Z: 2094 is too far ahead, 2030 is not.
        let now: Int64 = 1_795_219_200_000
        // Ten seconds before the year 2100.
        #expect(RetryAfter.duration("Friday, 01-Jan-00 00:00:00 GMT", now: 4_102_444_790_000) == .seconds(10))
        #expect(RetryAfter.duration("Sunday, 06-Nov-94 08:49:37 GMT", now: now) == nil)
        #expect(RetryAfter.duration("Saturday, 21-Nov-26 00:00:10 GMT", now: now) == .seconds(10))
        #expect(RetryAfter.duration("Thursday, 21-Nov-30 00:00:10 GMT", now: now) == .seconds(86_400))
    }
}
