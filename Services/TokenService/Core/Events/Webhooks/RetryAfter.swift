import PushModel

/// The value of `Retry-After` (RFC 9110 section 10.2.3): seconds, or a date in the one form that senders may use.
package enum RetryAfter {
    /// Nobody is waited for longer, whatever it asks for: a day.
    package static let maximum = Duration.seconds(86_400)

    private static let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]

    /// - Parameter now: UNIX milliseconds.
    /// - Returns: from now, bounded; nil for what is neither, and for what has passed.
    package static func duration(_ text: String, now: Int64) -> Duration? {
        if !text.isEmpty, text.utf8.count <= 18, text.utf8.allSatisfy({ (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }) {
            return Int64(text).map { min(.seconds($0), maximum) }
        }
        guard let moment = date(text), moment > now else { return nil }
        return min(.milliseconds(moment - now), maximum)
    }

    /// `Sun, 06 Nov 1994 08:49:37 GMT`, in UNIX milliseconds.
    private static func date(_ text: String) -> Int64? {
        let words = text.split(separator: " ")
        guard words.count == 6, words[5] == "GMT", let month = months.firstIndex(of: String(words[2])) else { return nil }
        return RFC3339.milliseconds("\(words[3])-\(month < 9 ? "0" : "")\(month + 1)-\(words[1])T\(words[4])Z")
    }
}
