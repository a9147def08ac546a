import Synchronization
import SystemIO

package enum FreePorts {
    /// A port without a listener: tcpmux (RFC 1078), which is out of use. A port that was just closed does not serve, because the kernel
    /// may give it to the next listener at once.
    package static let closed = 1

    /// Different ports on 127.0.0.1 without a listener. The kernel does not assign them by itself, and no other call gets them, in this
    /// process or in another test run.
    package static func choose(_ count: Int) throws -> [Int] {
        try claims.withLock { claims in
            var ports: [Int] = []
            while ports.count < count { ports.append(try claims.next()) }
            return ports
        }
    }

    struct NoneLeft: Error {}

    private static let claims = Mutex(Claims())

    /// A process claims a block by listening on its first port until it ends, and gives out the others once each. Without this claim a port
    /// would be free until its program starts, and another test could get the same one.
    private struct Claims {
        private static let blockSize = 64
        /// Below the range of Linux's ephemeral ports (32768 and up), and above the ports of `deploy/scripts`.
        private static let firstPorts = stride(from: 30_000, to: 32_768 - blockSize, by: blockSize)

        private var held: [TCPListener] = []
        private var unused: [Int] = []

        mutating func next() throws -> Int {
            while true {
                if unused.isEmpty { try claimBlock() }
                let port = unused.removeLast()
                if let listener = Self.listen(on: port) {
                    listener.close()
                    return port
                }
            }
        }

        private mutating func claimBlock() throws {
            for first in Self.firstPorts.shuffled() {
                guard let listener = Self.listen(on: first) else { continue }
                held.append(listener)
                unused = Array(first + 1..<first + Self.blockSize)
                return
            }
            throw NoneLeft()
        }

        private static func listen(on port: Int) -> TCPListener? { try? TCPListener(host: "127.0.0.1", port: port) }
    }
}
