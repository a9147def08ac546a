package import Hummingbird

extension Request {
    /// Whether the path is written the one way in which routes are. The router would pass over empty parts. An operator who hides
    /// `/metrics` from strangers with a rule on a proxy must not have to think of `//metrics` and `/metrics/`.
    package var hasPlainPath: Bool {
        var previous: UInt8 = 0
        var count = 0
        for byte in uri.path.utf8 {
            if byte == UInt8(ascii: "/"), previous == byte { return false }
            previous = byte
            count += 1
        }
        return previous != UInt8(ascii: "/") || count == 1
    }
}
