package import AsyncHTTPClient
package import Logging
import NIOCore
import NIOPosix
import NIOSSL
package import PushModel
import Synchronization
import SystemIO
package import TokenServiceApps
import TokenServiceKit

/// HTTP clients, each for one webhook and one host at one checked address: its connections go there even if the name gets another address
/// later. A client is kept for a minute, so that messages share connections; then the name is resolved again. Two webhooks at one host
/// share no connection: each may have as many messages under way as its client has connections, so a slow one delays no other.
///
/// The number of clients that are kept is bounded, because each has its own connections and TLS context. The client that was not used for
/// longest goes, of an app that has its share one of its own. If messages use it, it lives until they end: while more webhooks than
/// ``capacity`` have messages under way, each of these messages (256 at most) may have a client of its own beside those that are kept.
package final class WebhookClients: Sendable {
    /// The most clients of all apps together.
    package static let capacity = 64
    /// The most clients of one app.
    package static let share = Webhook.maximumPerApp

    private static let lifetime = Duration.seconds(60)
    private static let connectTimeout = TimeAmount.seconds(5)
    /// Addresses of one name that are tried.
    private static let maximumAddresses = 4

    private struct Place: Equatable {
        let app: App.ID
        let webhook: PushID
        let host: String
        let port: Int
    }

    /// Ends when neither the cache nor a request uses it any more.
    private final class Client: Sendable {
        let http: HTTPClient
        let place: Place
        /// All of them were checked; the client connects to the first.
        let addresses: [SystemIO.SocketAddress]
        let end = ContinuousClock.now + lifetime
        private let logger: Logger

        init(_ http: HTTPClient, _ place: Place, _ addresses: [SystemIO.SocketAddress], logger: Logger) {
            self.http = http
            self.place = place
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

    private struct Kept {
        /// The clients by webhook.
        private(set) var clients: [PushID: (client: Client, lastUse: UInt64)] = [:]
        private var uses: UInt64 = 0

        mutating func use(_ place: Place) -> Client? {
            guard let client = clients[place.webhook]?.client, client.place == place, client.end > .now else { return nil }
            uses += 1
            clients[place.webhook]?.lastUse = uses
            return client
        }

        mutating func keep(_ client: Client) {
            uses += 1
            clients[client.place.webhook] = (client, uses)
            let ofApp = clients.filter { $0.value.client.place.app == client.place.app }
            let crowd = ofApp.count > share ? ofApp : clients.count > capacity ? clients : [:]
            if let oldest = crowd.min(by: { $0.value.lastUse < $1.value.lastUse }) { clients[oldest.key] = nil }
        }

        mutating func removeExpired() { clients = clients.filter { $0.value.client.end > .now } }
        mutating func removeAll() { clients = [:] }
    }

    private let addresses: WebhookAddresses
    private let tls: TLSConfiguration
    private let concurrency: Int
    private let logger: Logger
    private let clients = Mutex(Kept())

    /// - Parameter concurrency: Connections of one webhook.
    package init(settings: WebhookSettings, addresses: WebhookAddresses, concurrency: Int, logger: Logger) {
        self.addresses = addresses
        self.concurrency = concurrency
        self.logger = logger
        var tls = TLSConfiguration.makeClientConfiguration()
        tls.minimumTLSVersion = .tlsv12
        if let file = settings.authorityFile { tls.additionalTrustRoots = [.file(file)] }
        self.tls = tls
    }

    /// Runs `body` with the webhook's client, which connects to a checked address of that host and to nothing else; if one address takes no
    /// connection, it tries the next.
    /// - Throws: ``WebhookAddresses/Refused``; ``HostResolution/Busy``; `ResolveError`; what `body` throws.
    package func with<R: Sendable>(
        _ url: WebhookURL, of webhook: PushID, app: App.ID, _ body: (HTTPClient) async throws -> R
    ) async throws -> R {
        let place = Place(app: app, webhook: webhook, host: url.host, port: url.port)
        var client: Client
        if let known = clients.withLock({ $0.use(place) }) { client = known } else { client = try await resolved(place) }
        var tried = 1
        while true {
            do {
                return try await body(client.http)
            } catch {
                guard tried < client.addresses.count, Self.isUnconnected(error), !Task.isCancelled else { throw error }
                client = next(after: client)
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
    func removeExpired() { clients.withLock { $0.removeExpired() } }

    /// Forgets all clients. Each ends when its last request has ended.
    package func close() { clients.withLock { $0.removeAll() } }

    /// How many are kept.
    package var count: Int { clients.withLock { $0.clients.count } }

    private func resolved(_ place: Place) async throws -> Client {
        // All addresses are checked, not only those that are tried.
        let checked = try await addresses.checked(host: place.host, port: place.port, for: place.app)
        return kept(client(for: place, Array(checked.prefix(Self.maximumAddresses))), insteadOf: nil)
    }

    /// Makes a client for the same name's next address, for every request from now on.
    private func next(after client: Client) -> Client {
        kept(self.client(for: client.place, Array(client.addresses.dropFirst()) + client.addresses.prefix(1)), insteadOf: client)
    }

    /// - Parameter former: The client that `client` replaces.
    /// - Returns: `client`, or the one that another request has made for its place meanwhile.
    private func kept(_ client: Client, insteadOf former: Client?) -> Client {
        clients.withLock { clients in
            if let other = clients.use(client.place), other !== former { return other }
            clients.keep(client)
            return client
        }
    }

    private func client(for place: Place, _ addresses: [SystemIO.SocketAddress]) -> Client {
        var configuration = HTTPClient.Configuration(
            tlsConfiguration: tls, redirectConfiguration: .disallow, timeout: .init(connect: Self.connectTimeout))
        configuration.dnsOverride = [place.host: addresses[0].host]
        configuration.httpVersion = .http1Only
        configuration.connectionPool = .init(idleTimeout: .seconds(30), concurrentHTTP1ConnectionsPerHostSoftLimit: concurrency)
        configuration.connectionPool.retryConnectionEstablishment = false
        return Client(HTTPClient(eventLoopGroupProvider: .singleton, configuration: configuration), place, addresses, logger: logger)
    }
}
