import Synchronization
import SystemIO

package enum FreePorts {
    /// Nobody listens there: tcpmux (RFC 1078), long out of use. A port that was listened on and closed is no substitute: the kernel may
    /// give it to the next listener at once.
    package static let closed = 1

    /// Different ports on 127.0.0.1 that nobody listens on, that the kernel gives to nobody who does not name them, and that no other call
    /// gets, in this process or in another test run.
    package static func choose(_ count: Int) throws -> [Int] {
        try claims.withLock { claims in
            var ports: [Int] = []
            while ports.count < count { ports.append(try claims.next()) }
            return ports
        }
    }

    struct NoneLeft: Error {}

    private static let claims = Mutex(Claims())

    /// A process claims a block by listening on its first port until it ends; the others are given out once each. A port that was only
    /// looked at would be free again until its program starts, and another test could be given the same.
    private struct Claims {
        private static let blockSize = 64
        /// Below the range from which Linux gives ports to those who ask for none (32768 and up), and above what `deploy/scripts` claim.
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
