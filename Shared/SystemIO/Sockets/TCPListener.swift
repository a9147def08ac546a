internal import CLinux
import Glibc
import Synchronization

/// Accepts TCP connections. Non-blocking; closed on exec. May be handed from thread to thread.
package final class TCPListener: Sendable {
    private let handle: Atomic<Int32>
    /// The address, with the port that the kernel chose for 0.
    package let address: SocketAddress

    package var port: Int { address.port }
    /// The descriptor for a `Poller`: readable when a client waits. -1 once closed.
    package var descriptor: Int32 { handle.load(ordering: .relaxed) }

    /// - Parameters:
    ///   - host: a name or literal; its first address counts. Blocks while it is looked up.
    ///   - port: 0 lets the kernel choose.
    ///   - sharesPort: several listeners on one port, among which the kernel spreads connections (SO_REUSEPORT, socket(7)).
    /// - Throws: `ResolveError`, `SystemError`
    package convenience init(host: String, port: Int, backlog: Int = 128, sharesPort: Bool = false) throws {
        try self.init(on: SocketAddress.resolve(host: host, port: port)[0], backlog: backlog, sharesPort: sharesPort)
    }

    package init(on address: SocketAddress, backlog: Int = 128, sharesPort: Bool = false) throws(SystemError) {
        let descriptor = Glibc.socket(
            address.family, Int32(SOCK_STREAM.rawValue | SOCK_NONBLOCK.rawValue | SOCK_CLOEXEC.rawValue), Int32(IPPROTO_TCP))
        guard descriptor >= 0 else { throw SystemError("socket") }
        let socket = TCPSocket(adopting: descriptor)
        var yes: Int32 = 1
        for option in sharesPort ? [SO_REUSEADDR, SO_REUSEPORT] : [SO_REUSEADDR] {
            guard setsockopt(descriptor, SOL_SOCKET, option, &yes, socklen_t(MemoryLayout<Int32>.size)) == 0 else {
                throw SystemError("setsockopt SO_REUSEADDR")
            }
        }
        guard address.withSocketAddress({ bind(descriptor, $0, $1) }) == 0 else { throw SystemError("bind \(address)") }
        guard listen(descriptor, Int32(clamping: backlog)) == 0 else { throw SystemError("listen") }
        guard let bound = socket.localAddress else { throw SystemError("getsockname") }
        self.address = bound
        handle = Atomic(socket.release())
    }

    deinit { close() }

    /// The next connection, or nil when no client waits.
    /// - Throws: when out of descriptors (`isOutOfDescriptors`), which passes; or when the listener itself is broken.
    package func accept() throws(SystemError) -> TCPSocket? {
        while true {
            let descriptor = push_accept4(descriptor)
            if descriptor >= 0 {
                let socket = TCPSocket(adopting: descriptor)
                // Fails only if the peer has left already, which the first read will show.
                var yes: Int32 = 1
                _ = setsockopt(descriptor, Int32(IPPROTO_TCP), TCP_NODELAY, &yes, socklen_t(MemoryLayout<Int32>.size))
                return socket
            }
            switch errno {
            case EAGAIN, EWOULDBLOCK: return nil
            // The peer gave up while it waited in the queue: not the listener's fault (accept(2)).
            case EINTR, ECONNABORTED, EPROTO: continue
            default: throw SystemError("accept")
            }
        }
    }

    package func close() {
        let descriptor = handle.exchange(-1, ordering: .acquiringAndReleasing)
        if descriptor >= 0 { _ = Glibc.close(descriptor) }
    }
}
