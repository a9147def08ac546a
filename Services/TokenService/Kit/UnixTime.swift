import FoundationEssentials
import PushModel
package import StrictJSON

package enum UnixTime {
    /// The wall clock, milliseconds since 1970.
    package static func milliseconds() -> Int64 { Int64((Date().timeIntervalSince1970 * 1000).rounded(.down)) }
}

/// Waiting for time to pass.
package enum Pause {
    /// - Returns: false where the task was cancelled meanwhile.
    package static func of(_ duration: Duration) async -> Bool {
        do {
            try await Task.sleep(for: duration)
            return true
        } catch {
            return false
        }
    }
}

extension JSONObjectReader {
    /// A field that is an RFC 3339 date and time, as UNIX milliseconds.
    package mutating func moment(_ key: String) -> Int64? {
        guard let text = optionalString(key, maximumBytes: 64) else { return nil }
        let moment = RFC3339.milliseconds(text)
        if moment == nil { problem(key, "invalid_time", "an RFC 3339 date and time") }
        return moment
    }
}
