import Postgres
import TokenServiceKit

/// PostgreSQL's clock and this process's differ by more than an hour. By a clock that is ahead everything is old, so nothing is removed,
/// and no period is made that reaches far ahead.
struct ClocksDiffer: Error, CustomStringConvertible {
    /// By how much the clocks may differ, in milliseconds.
    private static let tolerance: Int64 = 3_600_000

    /// By how much PostgreSQL's clock is ahead, in milliseconds; negative: behind.
    let ahead: Int64

    /// - Throws: ``ClocksDiffer``, `PostgresError`.
    static func check(in session: PostgresSession) throws {
        let now: Int64 = try session.execute("SELECT clock_timestamp() AS now").only().milliseconds("now")
        let ahead = now - UnixTime.milliseconds()
        guard abs(ahead) <= tolerance else { throw ClocksDiffer(ahead: ahead) }
    }

    var description: String { "PostgreSQL's clock is \(abs(ahead) / 1000) s \(ahead > 0 ? "ahead of" : "behind") this process's" }
}
