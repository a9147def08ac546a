/// Moments as text: RFC 3339 in UTC with milliseconds, `2026-11-21T09:30:00.250Z`, of the years 0 to 9999.
package enum RFC3339 {
    private static let millisecondsPerDay: Int64 = 86_400_000
    /// 0000-01-01T00:00:00.000Z and 9999-12-31T23:59:59.999Z.
    private static let writable: ClosedRange<Int64> = -62_167_219_200_000...253_402_300_799_999

    /// - Parameter milliseconds: UNIX time. A moment outside the years 0 to 9999 is written as the nearest one inside.
    package static func text(milliseconds: Int64) -> String {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(24)
        append(milliseconds: milliseconds, to: &bytes)
        return String(decoding: bytes, as: UTF8.self)
    }

    /// Appends 24 ASCII characters.
    package static func append(milliseconds: Int64, to buffer: inout [UInt8]) {
        let moment = min(max(milliseconds, writable.lowerBound), writable.upperBound)
        let time = moment.remainderOfDay
        let (year, month, day) = date(ofDay: (moment - time) / millisecondsPerDay)
        append(year, digits: 4, then: "-", to: &buffer)
        append(month, digits: 2, then: "-", to: &buffer)
        append(day, digits: 2, then: "T", to: &buffer)
        append(time / 3_600_000, digits: 2, then: ":", to: &buffer)
        append(time / 60_000 % 60, digits: 2, then: ":", to: &buffer)
        append(time / 1000 % 60, digits: 2, then: ".", to: &buffer)
        append(time % 1000, digits: 3, then: "Z", to: &buffer)
    }

    /// UNIX milliseconds of any RFC 3339 `date-time`: any offset, any number of fraction digits (cut off after the millisecond), a leap
    /// second as the second after it. Nil for any other text.
    package static func milliseconds(_ text: String) -> Int64? {
        var reader = Reader(bytes: Array(text.utf8))
        guard let year = reader.number(digits: 4), reader.take("-"), let month = reader.number(digits: 2), reader.take("-"),
            let day = reader.number(digits: 2), reader.take("T", "t"), (1...12).contains(month), day >= 1,
            let hour = reader.number(digits: 2), reader.take(":"), let minute = reader.number(digits: 2), reader.take(":"),
            let second = reader.number(digits: 2), hour <= 23, minute <= 59, second <= 60,
            let fraction = reader.fraction(), let offset = reader.offsetMinutes(), reader.isAtEnd
        else { return nil }
        let days = dayNumber(ofYear: year, month: month, day: day)
        guard date(ofDay: days) == (year, month, day) else { return nil }
        let minutes = hour * 60 + minute - offset
        return days * millisecondsPerDay + minutes * 60_000 + second * 1000 + fraction
    }

    private static func append(_ value: Int64, digits: Int, then mark: Unicode.Scalar, to buffer: inout [UInt8]) {
        var divisor: Int64 = digits == 4 ? 1000 : digits == 3 ? 100 : 10
        while divisor > 0 {
            buffer.append(UInt8(ascii: "0") + UInt8(truncatingIfNeeded: value / divisor % 10))
            divisor /= 10
        }
        buffer.append(UInt8(ascii: mark))
    }

    /// The Gregorian date of a day counted from 1970-01-01, by counting in eras of 400 years that begin on 1 March.
    private static func date(ofDay day: Int64) -> (year: Int64, month: Int64, day: Int64) {
        let shifted = day + 719_468
        let era = (shifted >= 0 ? shifted : shifted - 146_096) / 146_097
        let dayOfEra = shifted - era * 146_097
        let yearOfEra = (dayOfEra - dayOfEra / 1460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
        let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
        let monthFromMarch = (5 * dayOfYear + 2) / 153
        let month = monthFromMarch < 10 ? monthFromMarch + 3 : monthFromMarch - 9
        return (yearOfEra + era * 400 + (month <= 2 ? 1 : 0), month, dayOfYear - (153 * monthFromMarch + 2) / 5 + 1)
    }

    /// The inverse of ``date(ofDay:)``.
    private static func dayNumber(ofYear year: Int64, month: Int64, day: Int64) -> Int64 {
        let shifted = month <= 2 ? year - 1 : year
        let era = (shifted >= 0 ? shifted : shifted - 399) / 400
        let yearOfEra = shifted - era * 400
        let dayOfYear = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1
        return era * 146_097 + yearOfEra * 365 + yearOfEra / 4 - yearOfEra / 100 + dayOfYear - 719_468
    }

    private struct Reader {
        let bytes: [UInt8]
        var position = 0

        var isAtEnd: Bool { position == bytes.count }

        mutating func digit() -> Int64? {
            guard position < bytes.count, (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(bytes[position]) else { return nil }
            defer { position += 1 }
            return Int64(bytes[position] - UInt8(ascii: "0"))
        }

        mutating func number(digits: Int) -> Int64? {
            var value: Int64 = 0
            for _ in 0..<digits {
                guard let digit = digit() else { return nil }
                value = value * 10 + digit
            }
            return value
        }

        mutating func take(_ marks: Unicode.Scalar...) -> Bool {
            guard position < bytes.count, marks.contains(where: { UInt8(ascii: $0) == bytes[position] }) else { return false }
            position += 1
            return true
        }

        /// Milliseconds of `.123`, zero where there is no point.
        mutating func fraction() -> Int64? {
            guard take(".") else { return 0 }
            var value: Int64 = 0
            var scale: Int64 = 100
            guard let first = digit() else { return nil }
            value = first * scale
            while let next = digit() {
                scale /= 10
                value += next * scale
            }
            return value
        }

        mutating func offsetMinutes() -> Int64? {
            if take("Z", "z") { return 0 }
            let sign: Int64
            if take("+") { sign = 1 } else if take("-") { sign = -1 } else { return nil }
            guard let hours = number(digits: 2), take(":"), let minutes = number(digits: 2), hours <= 23, minutes <= 59 else { return nil }
            return sign * (hours * 60 + minutes)
        }
    }
}

extension Int64 {
    /// Milliseconds since midnight, also before 1970.
    fileprivate var remainderOfDay: Int64 {
        let remainder = self % 86_400_000
        return remainder >= 0 ? remainder : remainder + 86_400_000
    }
}
