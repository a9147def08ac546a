import FoundationEssentials
import PushModel

/// UNIX milliseconds.
func currentMilliseconds() -> Int64 { Int64(Date().timeIntervalSince1970 * 1000) }

/// RFC 3339.
func moment(after seconds: Int) -> String { RFC3339.text(milliseconds: currentMilliseconds() + Int64(seconds) * 1000) }
