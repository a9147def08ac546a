/// The value of `Retry-After` (RFC 9110 section 10.2.3): seconds, or a date in one of the three forms that a recipient must accept
/// (section 5.6.7).
package enum RetryAfter {
    /// A longer wait counts as a day.
    package static let maximum = Duration.seconds(86_400)

    private static let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
    private static let days = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"]
    private static let longDays = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
    private static let fiftyYears: Int64 = 18_262 * 86_400_000

    /// - Parameter now: UNIX milliseconds.
    /// - Returns: The time from now, at most ``maximum``; nil for a text of another form, and for a date that has passed.
    package static func duration(_ text: String, now: Int64) -> Duration? {
        if !text.isEmpty, text.utf8.allSatisfy({ (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }) {
            // Digits that no Int64 holds are a long wait all the same.
            return Int64(text).map { min(.seconds($0), maximum) } ?? maximum
        }
        guard let moment = date(text, now: now), moment > now else { return nil }
        return min(.milliseconds(moment - now), maximum)
    }

    /// UNIX milliseconds.
    private static func date(_ text: String, now: Int64) -> Int64? {
        let words = text.split(separator: " ").map(String.init)
        guard let first = words.first else { return nil }
        switch words.count {
        // Sun, 06 Nov 1994 08:49:37 GMT
        case 6 where words[5] == "GMT" && days.contains { "\($0)," == first }:
            return moment(year: words[3], month: words[2], day: words[1], time: words[4])
        // Sunday, 06-Nov-94 08:49:37 GMT
        case 4 where words[3] == "GMT" && longDays.contains { "\($0)," == first }:
            let parts = words[1].split(separator: "-").map(String.init)
            guard parts.count == 3, parts[2].utf8.count == 2 else { return nil }
            return moment(shortYear: parts[2], month: parts[1], day: parts[0], time: words[2], now: now)
        // Sun Nov  6 08:49:37 1994
        case 5 where days.contains(first):
            let day = words[2].utf8.count == 1 ? "0\(words[2])" : words[2]
            return moment(year: words[4], month: words[1], day: day, time: words[3])
        default: return nil
        }
    }

    /// Two digits of a year mean the last such year that is at most fifty years ahead.
    private static func moment(shortYear: String, month: String, day: String, time: String, now: Int64) -> Int64? {
        guard let century = Int64(RFC3339.text(milliseconds: now).prefix(2)) else { return nil }
        for century in [century + 1, century, century - 1] {
            let moment = moment(year: "\(century)\(shortYear)", month: month, day: day, time: time)
            if let moment, moment <= now + fiftyYears { return moment }
        }
        return nil
    }

    private static func moment(year: String, month: String, day: String, time: String) -> Int64? {
        guard let number = months.firstIndex(of: month) else { return nil }
        return RFC3339.milliseconds("\(year)-\(number < 9 ? "0" : "")\(number + 1)-\(day)T\(time)Z")
    }
}
