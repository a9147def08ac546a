import SystemIO

package enum FreePorts {
    /// Nobody listens there: tcpmux (RFC 1078), long out of use. A port that was listened on and closed is no substitute: the kernel may
    /// give it to the next listener at once.
    package static let closed = 1

    /// Below the range from which Linux gives ports to those who ask for none (32768 and up), and above what `deploy/scripts` claim.
    private static let range = 30_000..<32_768

    struct NoneLeft: Error {}

    /// Different ports on 127.0.0.1 that nobody listens on, and that the kernel gives to nobody who does not name them.
    package static func choose(_ count: Int) throws -> [Int] {
        // All are held until the last is found, or one might come twice.
        var listeners: [TCPListener] = []
        defer { listeners.forEach { $0.close() } }
        for port in range.shuffled() where listeners.count < count {
            if let listener = try? TCPListener(host: "127.0.0.1", port: port) { listeners.append(listener) }
        }
        guard listeners.count == count else { throw NoneLeft() }
        return listeners.map(\.port)
    }
}
