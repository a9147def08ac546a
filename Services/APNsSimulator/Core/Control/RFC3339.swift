/// A moment as RFC 3339 writes it, in UTC with milliseconds: `2026-11-21T08:09:10.123Z`.
/// - Parameter milliseconds: UNIX time; a moment outside the years 1970 to 9999 is their first or last one.
func rfc3339(_ milliseconds: Int64) -> String {
    let milliseconds = min(max(0, milliseconds), 253_402_300_799_999)
    let (seconds, fraction) = milliseconds.quotientAndRemainder(dividingBy: 1000)
    let (days, time) = seconds.quotientAndRemainder(dividingBy: 86_400)
    // Days to a date of the Gregorian calendar: eras of 400 years that begin in March, so that the leap day is a year's last.
    let shifted = days + 719_468
    let era = shifted / 146_097
    let dayOfEra = shifted % 146_097
    let yearOfEra = (dayOfEra - dayOfEra / 1460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
    let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
    let shiftedMonth = (5 * dayOfYear + 2) / 153
    let day = dayOfYear - (153 * shiftedMonth + 2) / 5 + 1
    let month = shiftedMonth < 10 ? shiftedMonth + 3 : shiftedMonth - 9
    let year = yearOfEra + era * 400 + (month <= 2 ? 1 : 0)
    func padded(_ number: Int64, _ width: Int) -> String {
        let digits = String(number)
        return String(repeating: "0", count: max(0, width - digits.count)) + digits
    }
    return "\(padded(year, 4))-\(padded(month, 2))-\(padded(day, 2))T\(padded(time / 3600, 2)):\(padded(time / 60 % 60, 2)):"
        + "\(padded(time % 60, 2)).\(padded(fraction, 3))Z"
}
