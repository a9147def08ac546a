import OpenSSL
import PushModel
import SystemIO

/// No connection was made: the step that failed, and the address.
struct DialError: Error, CustomStringConvertible {
    let address: SocketAddress?
    /// `resolve`, `connect`, `proxy` or `tls`.
    let step: String
    let message: String
    /// The peer refuses our certificate.
    var isCertificateRefused = false

    var description: String { "\(step): \(message)" }
}

/// One connection that is being made: resolves the name anew, spreads the addresses, and tries those that just failed last (docs/apns.md,
/// Connections). It never blocks; the loop calls it when the socket is ready or the time is up.
struct Dial {
    enum Progress {
        /// It waits until the socket is ready, or ``Dial/deadline``.
        case waits
        case done(SecureLink)
        case failed(DialError)
    }

    private enum Stage {
        case resolving
        case connecting(TCPSocket, SocketAddress)
        case tunnelling(TCPSocket, SocketAddress, ProxyTunnel)
        case securing(SecureLink)
    }

    private let context: PoolContext
    private let key: SocketKey
    private let poller: Poller
    private var stage = Stage.resolving
    /// Addresses that were not tried yet.
    private var left: [SocketAddress] = []
    private var tries = 0
    private var failure = DialError(address: nil, step: "resolve", message: "no address")
    /// The deadline of the step that is being made. Nil while the name is resolved, which the system's resolver bounds.
    private(set) var deadline: ContinuousClock.Instant?

    /// Addresses that one dial tries before the pool's back-off decides.
    private static let maximumTries = 3

    init(_ context: PoolContext, key: SocketKey, poller: Poller) {
        self.context = context
        self.key = key
        self.poller = poller
        let (pool, connection, loop) = (key.pool, key.connection, context.loop)
        let proxy = context.configuration.proxy
        context.resolver.ask(
            Resolver.Question(
                host: proxy?.host ?? context.endpoint.host, port: proxy?.port ?? context.endpoint.port,
                resolve: context.configuration.resolve,
                answer: { loop.post(.resolved(pool, connection, $0)) }))
    }

    mutating func resolved(
        _ result: Result<[SocketAddress], ResolveError>, _ addresses: inout AddressBook, _ now: ContinuousClock.Instant
    ) -> Progress {
        guard case .resolving = stage else { return .waits }
        switch result {
        case .success(let found): left = found
        case .failure(let error): return .failed(DialError(address: nil, step: "resolve", message: "\(error)"))
        }
        return tryNext(&addresses, now)
    }

    /// The socket is ready.
    mutating func proceed(_ addresses: inout AddressBook, _ buffers: LoopBuffers, _ now: ContinuousClock.Instant) -> Progress {
        do {
            switch stage {
            case .resolving: return .waits
            case .connecting(let socket, let address):
                try socket.connectionResult()
                deadline = now + context.configuration.handshakeTimeout
                guard let proxy = context.configuration.proxy else { return try beginSecuring(socket, address, buffers) }
                stage = .tunnelling(socket, address, ProxyTunnel(proxy, to: context.endpoint))
                return proceed(&addresses, buffers, now)
            case .tunnelling(let socket, let address, var tunnel):
                let interest = try tunnel.proceed(over: socket, buffers)
                stage = .tunnelling(socket, address, tunnel)
                guard let interest else { return try beginSecuring(socket, address, buffers) }
                try poller.modify(socket.descriptor, key: key.raw, interest: interest)
                return .waits
            case .securing(let link): return try secure(link)
            }
        } catch {
            return failed(error, &addresses, now)
        }
    }

    /// Has an effect only when the time is up.
    mutating func tick(_ addresses: inout AddressBook, _ now: ContinuousClock.Instant) -> Progress {
        guard let deadline, now >= deadline else { return .waits }
        switch stage {
        case .resolving: return .waits
        case .tunnelling: return failed(ProxyError.timeout, &addresses, now)
        case .connecting: return failed(SystemError.timedOut("connect"), &addresses, now)
        case .securing: return failed(LinkError.handshakeTimeout, &addresses, now)
        }
    }

    /// The pool no longer wants the connection.
    mutating func cancel(_ addresses: inout AddressBook) {
        if let address { addresses.closed(address) }
        closeSocket()
    }

    private mutating func beginSecuring(_ socket: TCPSocket, _ address: SocketAddress, _ buffers: LoopBuffers) throws -> Progress {
        let session = try TLSSession(client: context.tls, serverName: context.endpoint.tlsName)
        let link = SecureLink(socket, session, address: address, buffers)
        stage = .securing(link)
        return try secure(link)
    }

    private func secure(_ link: SecureLink) throws -> Progress {
        guard let interest = try link.handshake() else { return .done(link) }
        try poller.modify(link.socket.descriptor, key: key.raw, interest: interest)
        return .waits
    }

    private mutating func tryNext(_ addresses: inout AddressBook, _ now: ContinuousClock.Instant) -> Progress {
        while tries < Self.maximumTries, let address = addresses.open(oneOf: left, now: now) {
            tries += 1
            left.removeAll { $0 == address }
            do throws(SystemError) {
                let socket = try TCPSocket.beginConnecting(to: address)
                stage = .connecting(socket, address)
                try poller.add(socket.descriptor, key: key.raw, interest: .write)
                deadline = now + context.configuration.connectTimeout
                return .waits
            } catch {
                note(error, at: address, &addresses, now)
            }
        }
        return .failed(failure)
    }

    private mutating func failed(_ error: any Error, _ addresses: inout AddressBook, _ now: ContinuousClock.Instant) -> Progress {
        if let address { note(error, at: address, &addresses, now) }
        return tryNext(&addresses, now)
    }

    private mutating func note(
        _ error: any Error, at address: SocketAddress, _ addresses: inout AddressBook, _ now: ContinuousClock.Instant
    ) {
        let isAlert = (error as? TLSError)?.isAlert ?? false
        failure = DialError(
            address: address, step: step, message: "\(error)",
            isCertificateRefused: isAlert && context.signer == nil)
        addresses.closed(address)
        addresses.failed(address, now: now)
        closeSocket()
    }

    private mutating func closeSocket() {
        switch stage {
        case .resolving: break
        // The kernel takes a closed descriptor out of the poller (epoll(7)): no other descriptor refers to the same socket.
        case .connecting(let socket, _), .tunnelling(let socket, _, _): socket.close()
        case .securing(let link): link.socket.close()
        }
        stage = .resolving
        deadline = nil
    }

    private var step: String {
        switch stage {
        case .resolving, .connecting: "connect"
        case .tunnelling: "proxy"
        case .securing: "tls"
        }
    }

    private var address: SocketAddress? {
        switch stage {
        case .resolving: nil
        case .connecting(_, let address), .tunnelling(_, let address, _): address
        case .securing(let link): link.address
        }
    }
}
