import FoundationEssentials

/// UNIX milliseconds.
func currentMilliseconds() -> Int64 { Int64(Date().timeIntervalSince1970 * 1000) }
