import FoundationEssentials

package enum UnixTime {
    /// The wall clock, milliseconds since 1970.
    package static func milliseconds() -> Int64 { Int64((Date().timeIntervalSince1970 * 1000).rounded(.down)) }
}
