import OpenSSL
import Synchronization
import SystemIO

/// No connection came about: which step failed, and where.
struct DialError: Error, CustomStringConvertible {
    let address: SocketAddress?
    /// `resolve`, `connect` or `tls`: for metrics.
    let step: String
    let message: String

    var description: String { "\(step): \(message)" }
}

/// Opens connections: names resolved anew each time, addresses spread, those that just failed left for last (APNS.md section 5.1).
struct Dialer: Sendable {
    let endpoint: APNsEndpoint
    let context: TLSContext
    let connectTimeout: Duration
    let handshakeTimeout: Duration
    let addresses: AddressDirectory
    let clock: APNsClock

    /// So many addresses are tried before the pool's back-off decides.
    private static let attempts = 3

    /// Blocks. The address counts as in use until `AddressDirectory.closed`.
    func dial() throws(DialError) -> SecureLink {
        let found: [SocketAddress]
        do {
            found = try SocketAddress.resolve(host: endpoint.host, port: endpoint.port)
        } catch {
            throw DialError(address: nil, step: "resolve", message: "\(error)")
        }
        var failure = DialError(address: nil, step: "resolve", message: "no address")
        for address in addresses.order(found, now: clock.now()).prefix(Self.attempts) {
            do throws(DialError) {
                return try connect(to: address)
            } catch {
                addresses.failed(address, now: clock.now())
                failure = error
            }
        }
        throw failure
    }

    private func connect(to address: SocketAddress) throws(DialError) -> SecureLink {
        addresses.opened(address)
        do throws(DialError) {
            return try secure(address)
        } catch {
            addresses.closed(address)
            throw error
        }
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
            throw DialError(address: address, step: "tls", message: "\(error)")
        }
    }
}

/// The pool's address book, shared by its connections' threads.
final class AddressDirectory: Sendable {
    private let book: Mutex<AddressBook>

    init(avoidance: Duration) {
        book = Mutex(AddressBook(avoidance: avoidance))
    }

    func order(_ addresses: [SocketAddress], now: ContinuousClock.Instant) -> [SocketAddress] {
        book.withLock { book in
            var generator = SystemRandomNumberGenerator()
            return book.order(addresses, now: now, using: &generator)
        }
    }

    func opened(_ address: SocketAddress) { book.withLock { $0.opened(address) } }
    func closed(_ address: SocketAddress) { book.withLock { $0.closed(address) } }
    func failed(_ address: SocketAddress, now: ContinuousClock.Instant) { book.withLock { $0.failed(address, now: now) } }
}
