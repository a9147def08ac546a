import PushModel

extension LocalTime: CustomStringConvertible {
    /// The clock is furthest ahead at UTC+14 and furthest behind at UTC-12.
    private static let leadMs: Int64 = 14 * 3_600_000
    private static let lagMs: Int64 = 12 * 3_600_000

    /// Reads `2026-11-22T09:00`; nil for anything else, seconds and offsets included.
    package init?(_ text: String) {
        let digits = Array(text.utf8)
        guard digits.count == 16, digits[10] == UInt8(ascii: "T"), RFC3339.milliseconds(text + ":00Z") != nil else { return nil }
        func number(_ range: Range<Int>) -> Int { digits[range].reduce(0) { $0 * 10 + Int($1) - 48 } }
        self.init(year: number(0..<4), month: number(5..<7), day: number(8..<10), hour: number(11..<13), minute: number(14..<16))
    }

    package var description: String {
        func padded(_ number: Int, _ digits: Int) -> String {
            let text = String(number)
            return String(repeating: "0", count: max(0, digits - text.utf8.count)) + text
        }
        return "\(padded(year, 4))-\(padded(month, 2))-\(padded(day, 2))T\(padded(hour, 2)):\(padded(minute, 2))"
    }

    /// UNIX milliseconds of this time at UTC; nil where there is no such day.
    private var atUTC: Int64? { RFC3339.milliseconds(description + ":00Z") }

    /// When this time comes to the zone that has it first, in UNIX milliseconds.
    package var earliest: Int64 { (atUTC ?? 0) - Self.leadMs }
    /// When this time comes to the zone that has it last, in UNIX milliseconds.
    package var latest: Int64 { (atUTC ?? 0) + Self.lagMs }
}
