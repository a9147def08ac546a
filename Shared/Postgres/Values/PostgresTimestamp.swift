/// `timestamptz` is microseconds since 2000-01-01 00:00 UTC (PostgreSQL manual 8.5); ours are UNIX milliseconds.
enum PostgresTimestamp {
    private static let epochMilliseconds: Int64 = 946_684_800_000
    /// 4714-11-24 BC and 294277-01-01, the ends of the type's range (`timestamp.h`: MIN_TIMESTAMP, END_TIMESTAMP).
    private static let range: Range<Int64> = -211_813_488_000_000_000..<9_223_371_331_200_000_000

    static func microseconds(fromMilliseconds milliseconds: Int64) -> Int64? {
        let (shifted, underflow) = milliseconds.subtractingReportingOverflow(epochMilliseconds)
        let (microseconds, overflow) = shifted.multipliedReportingOverflow(by: 1000)
        guard !underflow, !overflow, range.contains(microseconds) else { return nil }
        return microseconds
    }

    /// Rounds down to the millisecond. nil for `infinity` and `-infinity`, which are the extremes of the number.
    static func milliseconds(fromMicroseconds microseconds: Int64) -> Int64? {
        guard range.contains(microseconds) else { return nil }
        let (quotient, remainder) = microseconds.quotientAndRemainder(dividingBy: 1000)
        return quotient - (remainder < 0 ? 1 : 0) + epochMilliseconds
    }
}
