import StrictJSON
package import TokenServiceKit

/// The time in which a user does not want pushes: from one time of day to another, by the clock of each device; over midnight if the end
/// comes first.
package struct QuietHours: Equatable, Sendable {
    /// `HH:MM`, from `00:00` to `23:59`.
    package let beginsAt: String
    package let endsAt: String

    package init(beginsAt: String, endsAt: String) {
        self.beginsAt = beginsAt
        self.endsAt = endsAt
    }

    /// Every fault goes to `body.problems`.
    init?(_ body: inout JSONObjectReader) {
        let (begin, end) = (body.timeOfDay("begins_at"), body.timeOfDay("ends_at"))
        if let begin, begin == end { body.problem("ends_at", "conflict", "must differ from begins_at") }
        body.finish()
        guard body.problems.isEmpty, let begin, let end else { return nil }
        self.init(beginsAt: begin, endsAt: end)
    }

    static let request = JSONSchema.request(
        "NewQuietHours",
        [
            .required("begins_at", timeOfDay, "From then on nothing is sent."),
            .required("ends_at", timeOfDay, "Then it is; another time than `begins_at`, on the next day where it is the earlier one."),
        ])
    package static let response = ResponseSchema<QuietHours>.object(
        "QuietHours",
        [.required("begins_at", .text(timeOfDay)) { $0.beginsAt }, .required("ends_at", .text(timeOfDay)) { $0.endsAt }])
    private static let timeOfDay = JSONSchema.string(pattern: "^([01][0-9]|2[0-3]):[0-5][0-9]$").example("22:00")
}

extension JSONObjectReader {
    fileprivate mutating func timeOfDay(_ key: String) -> String? {
        guard let text = string(key, maximumBytes: 16) else { return nil }
        let digits = Array(text.utf8)
        func number(_ first: Int) -> UInt8? {
            let (tens, ones) = (digits[first] &- 48, digits[first + 1] &- 48)
            return tens < 10 && ones < 10 ? tens * 10 + ones : nil
        }
        guard digits.count == 5, digits[2] == UInt8(ascii: ":"), let hour = number(0), let minute = number(3), hour < 24, minute < 60 else {
            problem(key, "invalid_time", "a time of day as HH:MM, 00:00 to 23:59")
            return nil
        }
        return text
    }
}
