import SystemIO
package import TokenServiceApps
import TokenServiceSending

/// Finds the addresses of a webhook's host and checks them by ``AddressRules``: when the webhook is made or changed, and again before each
/// connection, because the name may have another address by then.
package struct WebhookAddresses: Sendable {
    package struct Refused: Error {
        /// For the webhook's owner.
        package let words: String
    }

    /// How long a request that makes a webhook waits for the resolver.
    private static let timeout = Duration.seconds(2)

    let rules: AddressRules
    private let resolution: HostResolution

    /// A process has one: its copies share the threads that wait for the resolver.
    package init(
        rules: AddressRules, resolve: @escaping HostResolution.Resolver = { try SocketAddress.resolve(host: $0, port: $1) }
    ) {
        self.rules = rules
        resolution = HostResolution(resolve: resolve)
    }

    /// Every address is checked: a name may lead to a public and to a private address.
    /// - Throws: ``Refused``; ``HostResolution/Busy``; `ResolveError`.
    func checked(host: String, port: Int, for app: App.ID) async throws -> [SocketAddress] {
        let addresses = try await resolution.addresses(of: host, port: port, for: app)
        guard !addresses.isEmpty, addresses.allSatisfy({ rules.allows($0.ip) }) else {
            throw Refused(
                words: "\(host) leads to an address that is not on the public internet; for development, WEBHOOK_INSECURE=true permits "
                    + "addresses of the token service's own machine")
        }
        return addresses
    }

    /// Why a webhook may not have this URL. A name that cannot be resolved now is checked when a message is sent.
    package func refusal(of url: WebhookURL, for app: App.ID) async -> Refused? {
        await withTaskGroup(of: Refused?.self) { group in
            group.addTask {
                do { _ = try await checked(host: url.host, port: url.port, for: app) } catch { return error as? Refused }
                return nil
            }
            group.addTask {
                _ = await Pause.of(Self.timeout)
                return nil
            }
            defer { group.cancelAll() }
            return await group.next() ?? nil
        }
    }
}
