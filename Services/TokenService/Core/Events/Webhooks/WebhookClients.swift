package import AsyncHTTPClient
package import Logging
import NIOCore
import NIOPosix
import NIOSSL
import Synchronization
import SystemIO

/// HTTP clients, each for one host at one checked address: its connections go there even if the name gets another address later. A client
/// is kept for a minute, so that messages share connections; then the name is resolved again.
package final class WebhookClients: Sendable {
    private static let lifetime = Duration.seconds(60)
    private static let connectTimeout = TimeAmount.seconds(5)
    /// Addresses of one name that are tried.
    private static let maximumAddresses = 4

    private struct Place: Hashable {
        let host: String
        let port: Int
    }

    /// Ends when neither the cache nor a request uses it any more.
    private final class Client: Sendable {
        let http: HTTPClient
        /// All of them were checked; the client connects to the first.
        let addresses: [SystemIO.SocketAddress]
        let end = ContinuousClock.now + lifetime
        private let logger: Logger

        init(_ http: HTTPClient, _ addresses: [SystemIO.SocketAddress], logger: Logger) {
            self.http = http
            self.addresses = addresses
            self.logger = logger
        }

        deinit {
            Task { [http, logger] in
                do { try await http.shutdown() } catch {
                    logger.info("A webhook's client did not end cleanly", metadata: [LogKey.error: "\(String(describing: error))"])
                }
            }
        }
    }

    private let addresses: WebhookAddresses
    private let tls: TLSConfiguration
    private let concurrency: Int
    private let logger: Logger
    private let clients = Mutex<[Place: Client]>([:])

    /// - Parameter concurrency: Connections to one host.
    package init(
        settings: WebhookSettings, concurrency: Int, logger: Logger,
        resolve: WebhookAddresses.Resolver? = nil
    ) {
        addresses = resolve.map { WebhookAddresses(rules: settings.rules, resolve: $0) } ?? WebhookAddresses(rules: settings.rules)
        self.concurrency = concurrency
        self.logger = logger
        var tls = TLSConfiguration.makeClientConfiguration()
        tls.minimumTLSVersion = .tlsv12
        if let file = settings.authorityFile { tls.additionalTrustRoots = [.file(file)] }
        self.tls = tls
    }

    /// Runs `body` with a client that connects to a checked address of that host and to nothing else; if one address takes no connection,
    /// it tries the next.
    /// - Throws: ``WebhookAddresses/Refused``; `ResolveError`; what `body` throws.
    package func with<R: Sendable>(_ url: WebhookURL, _ body: (HTTPClient) async throws -> R) async throws -> R {
        let place = Place(host: url.host, port: url.port)
        var client: Client
        if let known = known(place) { client = known } else { client = try await resolved(place) }
        var tried = 1
        while true {
            do {
                return try await body(client.http)
            } catch {
                guard tried < client.addresses.count, Self.isUnconnected(error), !Task.isCancelled else { throw error }
                client = next(after: client, at: place)
                tried += 1
            }
        }
    }

    /// The errors that Linux reports if no server listens, or no route exists (errno: ENETUNREACH, ECONNREFUSED, EHOSTUNREACH).
    private static let unconnected: Set<Int32> = [101, 111, 113]

    /// Nothing was sent: the address did not take the connection.
    private static func isUnconnected(_ error: any Error) -> Bool {
        if let error = error as? IOError { return unconnected.contains(error.errnoCode) }
        return error is NIOConnectionError || (error as? HTTPClientError) == .connectTimeout
    }

    /// Forgets the clients that are past their time.
    func removeExpired() { clients.withLock { clients in clients = clients.filter { $0.value.end > .now } } }

    /// Forgets all clients. Each ends when its last request has ended.
    package func close() { clients.withLock { $0 = [:] } }

    private func known(_ place: Place) -> Client? {
        clients.withLock { clients in clients[place].flatMap { $0.end > .now ? $0 : nil } }
    }

    private func resolved(_ place: Place) async throws -> Client {
        // All addresses are checked, not only those that are tried.
        let checked = try await addresses.checked(host: place.host, port: place.port)
        let client = client(for: place, Array(checked.prefix(Self.maximumAddresses)))
        return clients.withLock { clients in
            clients[place] = client
            return client
        }
    }

    /// The same name's next address, for every request from now on; or the client that another request has made for it meanwhile.
    private func next(after client: Client, at place: Place) -> Client {
        let next = self.client(for: place, Array(client.addresses.dropFirst()) + client.addresses.prefix(1))
        return clients.withLock { clients in
            if let other = clients[place], other !== client, other.end > .now { return other }
            clients[place] = next
            return next
        }
    }

    private func client(for place: Place, _ addresses: [SystemIO.SocketAddress]) -> Client {
        var configuration = HTTPClient.Configuration(
            tlsConfiguration: tls, redirectConfiguration: .disallow, timeout: .init(connect: Self.connectTimeout))
        configuration.dnsOverride = [place.host: addresses[0].host]
        configuration.httpVersion = .http1Only
        configuration.connectionPool = .init(idleTimeout: .seconds(30), concurrentHTTP1ConnectionsPerHostSoftLimit: concurrency)
        configuration.connectionPool.retryConnectionEstablishment = false
        return Client(HTTPClient(eventLoopGroupProvider: .singleton, configuration: configuration), addresses, logger: logger)
    }
}
