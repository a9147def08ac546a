package import AsyncHTTPClient
package import Logging
import NIOCore
import NIOSSL
import Synchronization
package import SystemIO

/// HTTP clients, each for one host at one address that was checked: whatever the name leads to later, its connections go there. Kept for
/// a minute, so that what follows shares connections; then the name is asked for again.
package final class WebhookClients: Sendable {
    package struct Refused: Error {
        /// For the webhook's owner.
        package let words: String
    }

    package typealias Resolver = @Sendable (String, Int) async throws -> [SystemIO.SocketAddress]

    private static let lifetime = Duration.seconds(60)
    private static let connectTimeout = TimeAmount.seconds(5)

    private struct Place: Hashable {
        let host: String
        let port: Int
    }

    private struct Entry {
        let client: HTTPClient
        let made: ContinuousClock.Instant
        var users = 0
    }

    private struct State {
        var current: [Place: Int] = [:]
        var entries: [Int: Entry] = [:]
        var next = 0
    }

    private let resolve: Resolver
    private let rules: AddressRules
    private let tls: TLSConfiguration
    private let concurrency: Int
    private let logger: Logger
    private let state = Mutex(State())

    /// - Parameter concurrency: Connections to one host.
    package init(
        terms: WebhookTerms, concurrency: Int, logger: Logger,
        resolve: @escaping Resolver = { host, port in try await HostResolution.addresses(of: host, port: port) }
    ) {
        self.resolve = resolve
        rules = terms.rules
        self.concurrency = concurrency
        self.logger = logger
        var tls = TLSConfiguration.makeClientConfiguration()
        tls.minimumTLSVersion = .tlsv12
        if let file = terms.authorityFile { tls.additionalTrustRoots = [.file(file)] }
        self.tls = tls
    }

    /// Runs `body` with a client that connects to a checked address of that host and to nothing else.
    /// - Throws: ``Refused``; `ResolveError`; what `body` throws.
    package func with<R: Sendable>(_ url: WebhookURL, _ body: (HTTPClient) async throws -> R) async throws -> R {
        let place = Place(host: url.host, port: url.port)
        let (number, client): (Int, HTTPClient)
        if let known = take(place) { (number, client) = known } else { (number, client) = try await make(place) }
        do {
            let result = try await body(client)
            give(number, back: place)
            return result
        } catch {
            give(number, back: place)
            throw error
        }
    }

    /// Ends those that are past their time and not in use.
    func sweep() {
        let over = state.withLock { state -> [HTTPClient] in
            let numbers = state.entries.filter { $0.value.users == 0 && !Self.isFresh($0.value) }.map(\.key)
            state.current = state.current.filter { !numbers.contains($0.value) }
            return numbers.compactMap { state.entries.removeValue(forKey: $0)?.client }
        }
        end(over)
    }

    /// At the end, when nothing is under way any more.
    package func close() async {
        let all = state.withLock { state in
            defer { state = State() }
            return state.entries.values.map(\.client)
        }
        for client in all { await shutDown(client) }
    }

    private static func isFresh(_ entry: Entry) -> Bool { ContinuousClock.now - entry.made < lifetime }

    private func take(_ place: Place) -> (Int, HTTPClient)? {
        state.withLock { state in
            guard let number = state.current[place], let entry = state.entries[number], Self.isFresh(entry) else { return nil }
            state.entries[number]?.users += 1
            return (number, entry.client)
        }
    }

    private func make(_ place: Place) async throws -> (Int, HTTPClient) {
        let addresses = try await resolve(place.host, place.port)
        // All of them, not only the one that is taken: a name that leads inside too is nobody's honest mistake.
        guard let address = addresses.first, addresses.allSatisfy({ rules.allows($0.ip) }) else {
            throw Refused(words: "address_not_allowed: the name leads to an address that is not on the public internet")
        }
        var configuration = HTTPClient.Configuration(
            tlsConfiguration: tls, redirectConfiguration: .disallow, timeout: .init(connect: Self.connectTimeout))
        configuration.dnsOverride = [place.host: address.host]
        configuration.httpVersion = .http1Only
        configuration.connectionPool = .init(idleTimeout: .seconds(30), concurrentHTTP1ConnectionsPerHostSoftLimit: concurrency)
        configuration.connectionPool.retryConnectionEstablishment = false
        let client = HTTPClient(eventLoopGroupProvider: .singleton, configuration: configuration)
        let number = state.withLock { state in
            state.next += 1
            state.current[place] = state.next
            state.entries[state.next] = Entry(client: client, made: .now, users: 1)
            return state.next
        }
        return (number, client)
    }

    private func give(_ number: Int, back place: Place) {
        let over = state.withLock { state -> HTTPClient? in
            state.entries[number]?.users -= 1
            guard let entry = state.entries[number], entry.users == 0, state.current[place] != number else { return nil }
            state.entries[number] = nil
            return entry.client
        }
        end([over].compactMap(\.self))
    }

    private func end(_ clients: [HTTPClient]) {
        for client in clients { Task { await shutDown(client) } }
    }

    private func shutDown(_ client: HTTPClient) async {
        do { try await client.shutdown() } catch {
            logger.info("A webhook's client did not end cleanly", metadata: [LogKey.error: "\(String(describing: error))"])
        }
    }
}
