import SystemIO

package enum FreePorts {
    /// Different ports on 127.0.0.1 that nobody listens on at this moment.
    package static func choose(_ count: Int) throws -> [Int] {
        // All are held until the last is found, or the kernel might give one twice.
        let listeners = try (0..<count).map { _ in try TCPListener(host: "127.0.0.1", port: 0) }
        defer { listeners.forEach { $0.close() } }
        return listeners.map(\.port)
    }
}
