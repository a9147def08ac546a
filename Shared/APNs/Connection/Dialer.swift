import OpenSSL
import Synchronization
import SystemIO

/// No connection came about: which step failed, and where.
struct DialError: Error, CustomStringConvertible {
    let address: SocketAddress?
    /// `resolve`, `connect`, `tls` or ``thread``: for metrics.
    let step: String
    let message: String
    /// The peer does not want the certificate that we showed.
    var isCertificateRefused = false

    /// The system started no thread for the connection.
    static let thread = "thread"

    var description: String { "\(step): \(message)" }
}

/// Opens connections: names resolved anew each time, addresses spread, those that just failed left for last (docs/apns.md, Connections).
struct Dialer: Sendable {
    let endpoint: APNsEndpoint
    let context: TLSContext
    /// Whether we show one, and so may be refused for it.
    let showsCertificate: Bool
    let connectTimeout: Duration
    let handshakeTimeout: Duration
    let addresses: AddressDirectory
    let clock: APNsClock
    let resolve: @Sendable (String, Int) throws(ResolveError) -> [SocketAddress]

    /// So many addresses are tried before the pool's back-off decides.
    private static let attempts = 3

    /// Blocks. The address counts as in use until `AddressDirectory.closed`.
    func dial() throws(DialError) -> SecureLink {
        let found: [SocketAddress]
        do {
            found = try resolve(endpoint.host, endpoint.port)
        } catch {
            throw DialError(address: nil, step: "resolve", message: "\(error)")
        }
        var failure = DialError(address: nil, step: "resolve", message: "no address")
        var left = found
        for _ in 0..<Self.attempts {
            guard let address = addresses.open(oneOf: left, now: clock.now()) else { break }
            do throws(DialError) {
                return try secure(address)
            } catch {
                addresses.closed(address)
                addresses.failed(address, now: clock.now())
                left.removeAll { $0 == address }
                failure = error
            }
        }
        throw failure
    }

    private func secure(_ address: SocketAddress) throws(DialError) -> SecureLink {
        let socket: TCPSocket
        do {
            socket = try TCPSocket.connect(to: address, timeout: connectTimeout)
        } catch {
            throw DialError(address: address, step: "connect", message: "\(error)")
        }
        do {
            let link = SecureLink(socket, try TLSSession(client: context, serverName: endpoint.tlsName), address: address)
            try link.handshake(until: ContinuousClock.now + handshakeTimeout)
            return link
        } catch {
            socket.close()
            let isAlert = (error as? TLSError)?.isAlert ?? false
            throw DialError(address: address, step: "tls", message: "\(error)", isCertificateRefused: isAlert && showsCertificate)
        }
    }
}

/// The pool's address book, shared by its connections' threads.
final class AddressDirectory: Sendable {
    private let book: Mutex<AddressBook>

    init(avoidance: Duration) {
        book = Mutex(AddressBook(avoidance: avoidance))
    }

    /// Chooses the best, and counts it as in use at once: those who dial together go to different ones.
    func open(oneOf addresses: [SocketAddress], now: ContinuousClock.Instant) -> SocketAddress? {
        book.withLock { book in
            var generator = SystemRandomNumberGenerator()
            guard let address = book.order(addresses, now: now, using: &generator).first else { return nil }
            book.opened(address)
            return address
        }
    }

    func closed(_ address: SocketAddress) { book.withLock { $0.closed(address) } }
    func failed(_ address: SocketAddress, now: ContinuousClock.Instant) { book.withLock { $0.failed(address, now: now) } }
}
