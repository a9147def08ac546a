package import AsyncHTTPClient
package import Logging
import NIOCore
import NIOPosix
import NIOSSL
import Synchronization
import SystemIO

/// HTTP clients, each for one host at one address that was checked: whatever the name leads to later, its connections go there. Kept for
/// a minute, so that what follows shares connections; then the name is asked for again.
package final class WebhookClients: Sendable {
    private static let lifetime = Duration.seconds(60)
    private static let connectTimeout = TimeAmount.seconds(5)
    /// Addresses of one name that are tried.
    private static let maximumAddresses = 4

    private struct Place: Hashable {
        let host: String
        let port: Int
    }

    private struct Entry {
        let client: HTTPClient
        /// All were checked; the client goes to the first.
        let addresses: [SystemIO.SocketAddress]
        let made: ContinuousClock.Instant
        var users = 0
    }

    private struct State {
        var current: [Place: Int] = [:]
        var entries: [Int: Entry] = [:]
        var next = 0
    }

    private let addresses: WebhookAddresses
    private let tls: TLSConfiguration
    private let concurrency: Int
    private let logger: Logger
    private let state = Mutex(State())

    /// - Parameter concurrency: Connections to one host.
    package init(
        terms: WebhookTerms, concurrency: Int, logger: Logger,
        resolve: WebhookAddresses.Resolver? = nil
    ) {
        addresses = resolve.map { WebhookAddresses(rules: terms.rules, resolve: $0) } ?? WebhookAddresses(rules: terms.rules)
        self.concurrency = concurrency
        self.logger = logger
        var tls = TLSConfiguration.makeClientConfiguration()
        tls.minimumTLSVersion = .tlsv12
        if let file = terms.authorityFile { tls.additionalTrustRoots = [.file(file)] }
        self.tls = tls
    }

    /// Runs `body` with a client that connects to a checked address of that host and to nothing else; anew with the next address where one
    /// cannot be connected to.
    /// - Throws: ``WebhookAddresses/Refused``; `ResolveError`; what `body` throws.
    package func with<R: Sendable>(_ url: WebhookURL, _ body: (HTTPClient) async throws -> R) async throws -> R {
        let place = Place(host: url.host, port: url.port)
        var used: Used
        if let known = take(place) { used = known } else { used = try await make(place) }
        var tried = 1
        while true {
            do {
                let result = try await body(used.client)
                give(used.number, back: place)
                return result
            } catch {
                let isOver = tried == used.addresses.count || !Self.isUnconnected(error) || Task.isCancelled
                let next = isOver ? nil : following(used, at: place)
                give(used.number, back: place)
                guard let next else { throw error }
                used = next
                tried += 1
            }
        }
    }

    /// What Linux says where nobody takes a connection, or no way leads there (errno: ENETUNREACH, ECONNREFUSED, EHOSTUNREACH).
    private static let unconnected: Set<Int32> = [101, 111, 113]

    /// Nothing was sent: the address did not take the connection.
    private static func isUnconnected(_ error: any Error) -> Bool {
        if let error = error as? IOError { return unconnected.contains(error.errnoCode) }
        return error is NIOConnectionError || (error as? HTTPClientError) == .connectTimeout
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

    private struct Used {
        let number: Int
        let client: HTTPClient
        let addresses: [SystemIO.SocketAddress]
    }

    private func take(_ place: Place) -> Used? { state.withLock { state in Self.take(place, from: &state) } }

    private static func take(_ place: Place, from state: inout State) -> Used? {
        guard let number = state.current[place], let entry = state.entries[number], isFresh(entry) else { return nil }
        state.entries[number]?.users += 1
        return Used(number: number, client: entry.client, addresses: entry.addresses)
    }

    private func make(_ place: Place) async throws -> Used {
        // All of them are checked, not only those that are taken.
        let taken = Array(try await addresses.checked(host: place.host, port: place.port).prefix(Self.maximumAddresses))
        return state.withLock { state in Self.add(client(for: place, taken[0]), taken, at: place, to: &state) }
    }

    /// The same name's next address, for everybody; or the client that somebody else has made for it meanwhile.
    private func following(_ used: Used, at place: Place) -> Used {
        state.withLock { state in
            if state.current[place] != used.number, let other = Self.take(place, from: &state) { return other }
            let addresses = Array(used.addresses.dropFirst()) + used.addresses.prefix(1)
            return Self.add(client(for: place, addresses[0]), addresses, at: place, to: &state)
        }
    }

    private static func add(
        _ client: HTTPClient, _ addresses: [SystemIO.SocketAddress], at place: Place, to state: inout State
    ) -> Used {
        state.next += 1
        state.current[place] = state.next
        state.entries[state.next] = Entry(client: client, addresses: addresses, made: .now, users: 1)
        return Used(number: state.next, client: client, addresses: addresses)
    }

    private func client(for place: Place, _ address: SystemIO.SocketAddress) -> HTTPClient {
        var configuration = HTTPClient.Configuration(
            tlsConfiguration: tls, redirectConfiguration: .disallow, timeout: .init(connect: Self.connectTimeout))
        configuration.dnsOverride = [place.host: address.host]
        configuration.httpVersion = .http1Only
        configuration.connectionPool = .init(idleTimeout: .seconds(30), concurrentHTTP1ConnectionsPerHostSoftLimit: concurrency)
        configuration.connectionPool.retryConnectionEstablishment = false
        return HTTPClient(eventLoopGroupProvider: .singleton, configuration: configuration)
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
