import PushModel
import Testing
import TokenServiceSending

@Suite("When a notification is due and when it is too late")
struct TimingTests {
    static let now = ParsedRequest.now
    static let hour = ParsedRequest.hour
    private static func at(_ milliseconds: Int64) -> String { RFC3339.text(milliseconds: milliseconds) }

    @Test("The tests' clock stands where they say") func clock() { #expect(Self.at(Self.now) == "2026-11-21T12:00:00.000Z") }

    @Test("At once, for a day") func standard() throws {
        let request = try #require(try ParsedRequest(alert: #""priority":5"#).request)
        #expect(request.timing == NotificationRequest.Timing())
        #expect(request.expiresAt == Self.now + 24 * Self.hour)
        #expect(request.apnsExpiration == request.expiresAt / 1000)
    }

    @Test("A lifetime begins when it is due") func lifetime() throws {
        let due = Self.now + 48 * Self.hour
        let request = try #require(try ParsedRequest(alert: #""not_before":"\#(Self.at(due))","ttl_seconds":60,"urgent":true"#).request)
        #expect(request.timing == NotificationRequest.Timing(notBefore: due, isUrgent: true))
        #expect(request.expiresAt == due + 60_000)
        let standard = try #require(try ParsedRequest(alert: #""not_before":"\#(Self.at(due))""#).request)
        #expect(standard.expiresAt == due + 24 * Self.hour)
        let absolute = try #require(
            try ParsedRequest(alert: #""not_before":"\#(Self.at(due))","expires_at":"\#(Self.at(due + 72 * Self.hour))""#).request)
        #expect(absolute.expiresAt == due + 72 * Self.hour)
    }

    @Test("A local time lasts until it has come to the last time zone, and each device has its own lifetime") func localTime() throws {
        let parsed = try ParsedRequest(alert: #""local_time":"2026-11-23T09:00","ttl_seconds":3600"#)
        let request = try #require(parsed.request)
        #expect(request.timing.localTime == LocalTime(year: 2026, month: 11, day: 23, hour: 9, minute: 0))
        #expect(request.timing.lifetime == Self.hour)
        // 09:00 at UTC-12 is 21:00 at UTC.
        #expect(request.expiresAt == RFC3339.milliseconds("2026-11-23T22:00:00Z"))
        #expect(request.timing.localTime?.earliest == RFC3339.milliseconds("2026-11-22T19:00:00Z"))
        #expect(request.timing.localTime?.latest == RFC3339.milliseconds("2026-11-23T21:00:00Z"))
        #expect(parsed.warnings == [])
        let absolute = try #require(
            try ParsedRequest(alert: #""local_time":"2026-11-23T09:00","expires_at":"2026-11-26T21:00:00Z""#).request)
        #expect(absolute.timing.lifetime == NotificationRequest.maximumLifetimeMs)
        #expect(try ParsedRequest(alert: #""local_time":"2026-11-23T09:00""#).request?.timing.lifetime == 24 * Self.hour)
    }

    @Test("A local time that leaves some out is warned about") func localTimeWarnings() throws {
        // 02:00 at UTC+14 was at noon of the day before, which is now.
        #expect(try ParsedRequest(alert: #""local_time":"2026-11-22T02:00""#).warnings == ["/local_time local_time_passed"])
        #expect(try ParsedRequest(alert: #""local_time":"2026-11-22T02:01""#).warnings == [])
        let short = try ParsedRequest(alert: #""local_time":"2026-11-23T09:00","expires_at":"2026-11-23T21:00:00Z""#)
        #expect(short.warnings == ["/expires_at expires_before_last_time_zone"])
        #expect(try ParsedRequest(alert: #""local_time":"2026-11-23T09:00","expires_at":"2026-11-23T21:00:01Z""#).warnings == [])
    }

    @Test("A time that cannot be is refused at its place", arguments: faults)
    func refuses(more: String, problems: [String]) throws {
        let parsed = try ParsedRequest(alert: more)
        #expect(parsed.problems == problems)
        #expect(parsed.request == nil)
    }

    static let faults: [(String, [String])] = [
        (#""not_before":"\#(at(now))""#, ["/not_before out_of_range"]),
        (#""not_before":"\#(at(now - 1))","ttl_seconds":5"#, ["/not_before out_of_range"]),
        (#""not_before":"\#(at(now + 30 * 24 * hour + 1))""#, ["/not_before out_of_range"]),
        (#""not_before":"tomorrow""#, ["/not_before invalid_time"]), (#""not_before":1795262400"#, ["/not_before wrong_type"]),
        (#""not_before":"2026-11-22T09:00""#, ["/not_before invalid_time"]),
        (#""not_before":"\#(at(now + hour))","local_time":"2026-11-23T09:00""#, ["/local_time conflict"]),
        (#""local_time":"2026-11-23T09:00:00Z""#, ["/local_time invalid_time"]), (#""local_time":"09:00""#, ["/local_time invalid_time"]),
        (#""local_time":"2026-02-29T09:00""#, ["/local_time invalid_time"]),
        (#""local_time":"2026-11-23t09:00""#, ["/local_time invalid_time"]),
        (#""local_time":"2026-11-23T24:00""#, ["/local_time invalid_time"]), (#""local_time":9"#, ["/local_time wrong_type"]),
        (#""local_time":"2026-11-21T00:00""#, ["/local_time out_of_range"]),
        (#""local_time":"2026-12-22T03:00""#, ["/local_time out_of_range"]),
        (#""ttl_seconds":0"#, ["/ttl_seconds out_of_range"]), (#""ttl_seconds":259201"#, ["/ttl_seconds out_of_range"]),
        (#""ttl_seconds":1.5"#, ["/ttl_seconds wrong_type"]),
        (#""ttl_seconds":1,"expires_at":"\#(at(now + hour))""#, ["/ttl_seconds conflict"]),
        (#""expires_at":"\#(at(now))""#, ["/expires_at out_of_range"]),
        (#""expires_at":"\#(at(now + 72 * hour + 1))""#, ["/expires_at out_of_range"]),
        (#""expires_at":"x""#, ["/expires_at invalid_time"]),
        (#""not_before":"\#(at(now + hour))","expires_at":"\#(at(now + hour))""#, ["/expires_at out_of_range"]),
        (#""not_before":"\#(at(now + hour))","expires_at":"\#(at(now + 73 * hour + 1))""#, ["/expires_at out_of_range"]),
        (#""local_time":"2026-11-23T09:00","expires_at":"2026-11-22T19:00:00Z""#, ["/expires_at out_of_range"]),
        (#""local_time":"2026-11-23T09:00","expires_at":"2026-11-26T21:00:01Z""#, ["/expires_at out_of_range"]),
        (#""apns_expiration":\#(now / 1000)"#, ["/apns_expiration out_of_range"]),
        (#""apns_expiration":\#(now / 1000 + 30 * 86_400 + 1)"#, ["/apns_expiration out_of_range"]),
        (#""apns_expiration":-1"#, ["/apns_expiration out_of_range"]),
        (#""not_before":"\#(at(now + hour))","apns_expiration":\#((now + hour) / 1000)"#, ["/apns_expiration out_of_range"]),
        (#""local_time":"2026-11-23T09:00","apns_expiration":\#((now + 48 * hour) / 1000)"#, ["/apns_expiration out_of_range"]),
    ]

    @Test(
        "The last moments that are allowed",
        arguments: [
            #""not_before":"\#(at(now + 1))""#, #""not_before":"\#(at(now + 30 * 24 * hour))","ttl_seconds":259200"#,
            #""local_time":"2026-11-21T00:01""#, #""local_time":"2026-12-22T02:00""#, #""expires_at":"\#(at(now + 72 * hour))""#,
            #""expires_at":"\#(at(now + 1))""#, #""apns_expiration":0"#, #""apns_expiration":\#(now / 1000 + 1)"#,
            #""apns_expiration":\#(now / 1000 + 30 * 86_400)"#, #""expires_at":"2026-11-22T12:00:00+01:00""#,
        ])
    func takes(more: String) throws { #expect(try ParsedRequest(alert: more).problems == []) }
}
