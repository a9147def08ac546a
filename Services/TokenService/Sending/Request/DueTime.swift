import PushModel
import StrictJSON
import TokenServiceKit

/// From when on a notification may be sent, in UNIX milliseconds: one moment, or one in every time zone.
struct DueTime {
    static let maximumAheadMs: Int64 = 30 * 86_400_000

    var notBefore: Int64?
    var localTime: LocalTime?
    /// The first and the last moment at which it is due somewhere; the same without a local time.
    var earliest: Int64
    var latest: Int64

    func timing(lifetime: Int64?, isUrgent: Bool) -> NotificationRequest.Timing {
        NotificationRequest.Timing(notBefore: notBefore, localTime: localTime, lifetime: lifetime, isUrgent: isUrgent)
    }
}

/// Until when it may be sent.
struct Expiry {
    var at: Int64
    /// See ``NotificationRequest/Timing/lifetime``.
    var lifetime: Int64?
    var source: Source

    enum Source { case expiresAt, ttlSeconds, standard }
}

extension NotificationRequest {
    /// A job may live no longer once it is due: the control stream keeps fences for as long.
    package static let maximumLifetimeMs: Int64 = 72 * 3_600_000
    package static let defaultLifetimeMs: Int64 = 24 * 3_600_000
}

extension JSONObjectReader {
    /// - Returns: nil if a stated time is not possible.
    mutating func dueTime(now: Int64) -> DueTime? {
        let moment = moment("not_before")
        let text = optionalString("local_time", maximumBytes: 64)
        if optionalValue("not_before") != nil, optionalValue("local_time") != nil {
            problem("local_time", "conflict", "only one of not_before and local_time")
            return nil
        }
        if optionalValue("not_before") != nil {
            guard let moment else { return nil }
            guard moment > now, moment <= now + DueTime.maximumAheadMs else {
                problem("not_before", "out_of_range", "in the future, at most 30 days from now")
                return nil
            }
            return DueTime(notBefore: moment, earliest: moment, latest: moment)
        }
        guard optionalValue("local_time") != nil else { return DueTime(earliest: now, latest: now) }
        return text.flatMap { dueTime(local: $0, now: now) }
    }

    private func dueTime(local text: String, now: Int64) -> DueTime? {
        guard let time = LocalTime(text) else {
            problem("local_time", "invalid_time", "a date and a time of day without a zone, 2026-11-22T09:00")
            return nil
        }
        guard time.latest > now, time.earliest <= now + DueTime.maximumAheadMs else {
            problem("local_time", "out_of_range", "still to come in some time zone, at most 30 days from now")
            return nil
        }
        return DueTime(localTime: time, earliest: time.earliest, latest: time.latest)
    }

    mutating func expiry(due: DueTime?, now: Int64) -> Expiry? {
        let maximum = NotificationRequest.maximumLifetimeMs
        let seconds = optionalInteger("ttl_seconds", in: 1...maximum / 1000)
        let moment = moment("expires_at")
        if optionalValue("ttl_seconds") != nil, optionalValue("expires_at") != nil {
            problem("ttl_seconds", "conflict", "only one of ttl_seconds and expires_at")
            return nil
        }
        guard let due else { return nil }
        guard optionalValue("expires_at") != nil else {
            let lifetime = seconds.map { $0 * 1000 } ?? NotificationRequest.defaultLifetimeMs
            return Expiry(
                at: due.latest + lifetime, lifetime: due.localTime.map { _ in lifetime }, source: seconds == nil ? .standard : .ttlSeconds)
        }
        guard let moment else { return nil }
        guard moment > max(now, due.earliest), moment <= due.latest + maximum else {
            problem("expires_at", "out_of_range", "after it is due, by at most 72 hours")
            return nil
        }
        // In the zones where a local time comes first, the job must not live until it expires in the last zone.
        return Expiry(at: moment, lifetime: due.localTime.map { _ in maximum }, source: .expiresAt)
    }

    mutating func apnsExpiration(due: DueTime?) -> Int64? {
        guard let seconds = optionalInteger("apns_expiration", in: 0...Int64.max) else { return nil }
        // Thirty days is how long APNs stores at most (Apple, "Sending notification requests to APNs", `apns-expiration`); it does not
        // store a push whose expiration is past when it is sent.
        if let due, seconds != 0, seconds <= due.latest / 1000 || seconds > due.latest / 1000 + 30 * 86_400 {
            problem("apns_expiration", "out_of_range", "0, or UNIX seconds after it is due, by at most 30 days")
        }
        return seconds
    }
}

/// A date and a time of day without a zone: it comes at another moment in every time zone.
package struct LocalTime: Equatable, Sendable {
    package var year: Int
    package var month: Int
    package var day: Int
    package var hour: Int
    package var minute: Int

    package init(year: Int, month: Int, day: Int, hour: Int, minute: Int) {
        self.year = year
        self.month = month
        self.day = day
        self.hour = hour
        self.minute = minute
    }
}

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
