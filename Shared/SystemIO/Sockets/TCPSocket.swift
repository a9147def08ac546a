internal import CLinux
import Glibc
import Synchronization

/// A non-blocking TCP connection with TCP_NODELAY, closed on exec. One owner reads and writes it; `close` may come from another.
/// It may be handed from thread to thread.
package final class TCPSocket: Sendable {
    private let handle: Atomic<Int32>

    /// Takes over an open, non-blocking descriptor.
    init(adopting descriptor: Int32) {
        handle = Atomic(descriptor)
    }

    deinit { close() }

    /// The descriptor for a `Poller`; -1 once closed.
    package var descriptor: Int32 { handle.load(ordering: .relaxed) }

    /// Idempotent. Remove the descriptor from its poller first.
    package func close() {
        let descriptor = handle.exchange(-1, ordering: .acquiringAndReleasing)
        if descriptor >= 0 { _ = Glibc.close(descriptor) }
    }

    /// Gives the descriptor away; this object is closed afterwards.
    func release() -> Int32 {
        handle.exchange(-1, ordering: .acquiringAndReleasing)
    }

    /// Blocks until connected, refused, or `timeout` has passed (ETIMEDOUT).
    package static func connect(to address: SocketAddress, timeout: Duration) throws(SystemError) -> TCPSocket {
        let (socket, isConnected) = try begin(to: address)
        if !isConnected { try socket.awaitConnection(timeout: timeout) }
        return socket
    }

    /// Makes a socket that is being connected, for a loop that waits for many. It becomes writable when that has ended, and
    /// `connectionResult` has the result.
    package static func beginConnecting(to address: SocketAddress) throws(SystemError) -> TCPSocket {
        try begin(to: address).socket
    }

    private static func begin(to address: SocketAddress) throws(SystemError) -> (socket: TCPSocket, isConnected: Bool) {
        let descriptor = Glibc.socket(
            address.family, Int32(SOCK_STREAM.rawValue | SOCK_NONBLOCK.rawValue | SOCK_CLOEXEC.rawValue), Int32(IPPROTO_TCP))
        guard descriptor >= 0 else { throw SystemError("socket") }
        let socket = TCPSocket(adopting: descriptor)
        try socket.set(Int32(IPPROTO_TCP), TCP_NODELAY, 1, "TCP_NODELAY")
        if address.withSocketAddress({ Glibc.connect(descriptor, $0, $1) }) == 0 { return (socket, true) }
        // EINTR: the connection is being made all the same (connect(2)).
        guard errno == EINPROGRESS || errno == EINTR else { throw SystemError("connect") }
        return (socket, false)
    }

    private func awaitConnection(timeout: Duration) throws(SystemError) {
        let deadline = ContinuousClock.now + timeout
        while true {
            var wish = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
            let ready = poll(&wish, 1, (deadline - ContinuousClock.now).millisecondsRoundedUp)
            if ready > 0 { break }
            if ready == 0 { throw SystemError(operation: "connect", code: ETIMEDOUT) }
            if errno != EINTR { throw SystemError("poll") }
        }
        try connectionResult()
    }

    /// Throws if a connection that was begun has failed, once its socket is writable.
    package func connectionResult() throws(SystemError) {
        var code: Int32 = 0
        var length = socklen_t(MemoryLayout<Int32>.size)
        guard getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &code, &length) == 0 else { throw SystemError("getsockopt SO_ERROR") }
        if code != 0 { throw SystemError(operation: "connect", code: code) }
    }

    /// One recv(2) into the front of `buffer`, whose count is the most that is read; its count does not change.
    package func read(into buffer: inout [UInt8]) throws(SystemError) -> IOResult {
        while true {
            let count = buffer.withUnsafeMutableBytes { recv(descriptor, $0.baseAddress, $0.count, 0) }
            if count > 0 { return .bytes(count) }
            if count == 0 { return .endOfStream }
            if errno == EAGAIN || errno == EWOULDBLOCK { return .wouldBlock }
            if errno != EINTR { throw SystemError("recv") }
        }
    }

    /// One send(2). Raises no SIGPIPE: a closed connection is EPIPE or ECONNRESET.
    package func write(_ bytes: Span<UInt8>) throws(SystemError) -> IOResult {
        guard !bytes.isEmpty else { return .bytes(0) }
        while true {
            let count = bytes.withUnsafeBytes { send(descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL)) }
            if count >= 0 { return .bytes(count) }
            if errno == EAGAIN || errno == EWOULDBLOCK { return .wouldBlock }
            if errno != EINTR { throw SystemError("send") }
        }
    }

    /// Sends FIN: the peer reads end of stream, and may still answer.
    package func shutdownWriting() throws(SystemError) {
        if shutdown(descriptor, Int32(SHUT_WR)) != 0 { throw SystemError("shutdown") }
    }
}

extension TCPSocket {
    /// How long sent bytes may stay unacknowledged before the kernel gives the connection up (TCP_USER_TIMEOUT, tcp(7)), instead of 15
    /// minutes.
    package func setUserTimeout(_ timeout: Duration) throws(SystemError) {
        try set(Int32(IPPROTO_TCP), TCP_USER_TIMEOUT, timeout.millisecondsRoundedUp, "TCP_USER_TIMEOUT")
    }

    /// Makes `close` discard unsent bytes and reset the connection (SO_LINGER of zero seconds, socket(7)): for tests of an abrupt end.
    package func resetOnClose() throws(SystemError) {
        var value = linger(l_onoff: 1, l_linger: 0)
        guard setsockopt(descriptor, SOL_SOCKET, SO_LINGER, &value, socklen_t(MemoryLayout<linger>.size)) == 0 else {
            throw SystemError("setsockopt SO_LINGER")
        }
    }

    /// The kernel's send buffer in bytes (SO_SNDBUF, socket(7)); small ones make partial writes likely.
    package func setSendBuffer(_ bytes: Int) throws(SystemError) {
        try set(SOL_SOCKET, SO_SNDBUF, Int32(clamping: bytes), "SO_SNDBUF")
    }

    /// How many bytes the kernel takes that it has not sent yet (TCP_NOTSENT_LOWAT, tcp(7)): bytes that it has taken can no longer be
    /// overtaken.
    package func setUnsentLimit(_ bytes: Int) throws(SystemError) {
        try set(Int32(IPPROTO_TCP), TCP_NOTSENT_LOWAT, Int32(clamping: bytes), "TCP_NOTSENT_LOWAT")
    }

    package var localAddress: SocketAddress? { address { getsockname($0, $1, $2) } }
    package var remoteAddress: SocketAddress? { address { getpeername($0, $1, $2) } }

    private func address(_ ask: (Int32, UnsafeMutablePointer<sockaddr>, UnsafeMutablePointer<socklen_t>) -> Int32) -> SocketAddress? {
        var storage = sockaddr_storage()
        var length = socklen_t(MemoryLayout<sockaddr_storage>.size)
        return withUnsafeMutablePointer(to: &storage) { storage in
            storage.withMemoryRebound(to: sockaddr.self, capacity: 1) { address in
                ask(descriptor, address, &length) == 0 ? SocketAddress(address, length: length) : nil
            }
        }
    }

    private func set(_ level: Int32, _ option: Int32, _ value: Int32, _ name: String) throws(SystemError) {
        var value = value
        guard setsockopt(descriptor, level, option, &value, socklen_t(MemoryLayout<Int32>.size)) == 0 else {
            throw SystemError("setsockopt \(name)")
        }
    }
}

/// The result of one non-blocking read or write.
package enum IOResult: Equatable, Sendable {
    /// This many bytes were moved: at least one, perhaps fewer than requested.
    case bytes(Int)
    /// No bytes now; the poller reports when.
    case wouldBlock
    /// Reads only: the peer will send no more.
    case endOfStream
}
