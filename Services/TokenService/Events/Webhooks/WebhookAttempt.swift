import AsyncHTTPClient
import Logging
import NIOCore
import NIOHTTP1
import Observability
import PushModel
import SystemIO
package import TokenServiceApps
import TokenServiceKit
import TokenServiceSending

/// One POST of one message.
package struct WebhookAttempt: Sendable {
    package struct Outcome: Equatable, Sendable {
        /// The metric's dimension.
        package enum Result: String, CaseIterable, Sendable {
            case delivered, failed
            /// The receiver answered 410: it wants no more.
            case gone
            /// The name has an address that is not allowed.
            case refused
        }

        package var result: Result
        /// Nil where there was no answer.
        package var status: Int?
        /// Nil where it was delivered.
        package var error: String?
        /// How long the receiver asks to wait.
        package var retryAfter: Duration?

        package init(_ result: Result, status: Int? = nil, error: String? = nil, retryAfter: Duration? = nil) {
            self.result = result
            self.status = status
            self.error = error
            self.retryAfter = retryAfter
        }
    }

    /// How much of an answer's body is read; the connection of a longer one is closed.
    private static let answerBytes = 16_384

    private let clients: WebhookClients
    private let settings: WebhookSettings

    package init(clients: WebhookClients, settings: WebhookSettings) {
        self.clients = clients
        self.settings = settings
    }

    /// Ends within the time limit, however the receiver behaves.
    package func post(_ message: WebhookMessage.Claimed) async -> Outcome {
        guard let url = WebhookURL(message.url, allowsHTTP: settings.isInsecure) else {
            return Outcome(.refused, error: "url_not_allowed: \(WebhookURL.rule)")
        }
        return await withTaskGroup(of: Outcome?.self) { group in
            group.addTask { await self.exchange(message, url) }
            group.addTask { await Pause.of(self.settings.timeout) ? Outcome(.failed, error: "timeout") : nil }
            defer { group.cancelAll() }
            return await group.next().flatMap(\.self) ?? Outcome(.failed, error: "stopped")
        }
    }

    private func exchange(_ message: WebhookMessage.Claimed, _ url: WebhookURL) async -> Outcome {
        do {
            return try await clients.with(url, of: message.webhook, app: message.app) { client in
                let response = try await client.execute(request(message, url), deadline: .now() + .seconds(120))
                await Self.skip(response.body)
                return Self.outcome(
                    Int(response.status.code),
                    retryAfter: response.headers.first(name: "retry-after").flatMap {
                        RetryAfter.duration($0, now: UnixTime.milliseconds())
                    })
            }
        } catch let error as WebhookAddresses.Refused {
            return Outcome(.refused, error: "address_not_allowed: \(error.words)")
        } catch is HostResolution.Busy {
            return Outcome(.failed, error: "name_not_resolved: too many names are being resolved")
        } catch let error as ResolveError {
            return Outcome(.failed, error: "name_not_resolved: \(error.message)")
        } catch {
            return Outcome(.failed, error: Self.words(error))
        }
    }

    private func request(_ message: WebhookMessage.Claimed, _ url: WebhookURL) -> HTTPClientRequest {
        let (id, timestamp) = (message.id.description, UnixTime.milliseconds() / 1000)
        var request = HTTPClientRequest(url: url.text)
        request.method = .POST
        request.headers.add(name: "content-type", value: PlatformEvent.contentType)
        request.headers.add(name: "user-agent", value: "push-token-service")
        request.headers.add(name: "webhook-id", value: id)
        request.headers.add(name: "webhook-timestamp", value: "\(timestamp)")
        request.headers.add(
            name: "webhook-signature",
            value: WebhookSecret.signature(of: message.body, id: id, timestamp: timestamp, secrets: message.secrets))
        request.body = .bytes(ByteBuffer(bytes: message.body))
        return request
    }

    /// Reads a short answer to its end, so that its connection can be used again.
    private static func skip(_ body: HTTPClientResponse.Body) async {
        var rest = answerBytes
        do {
            for try await part in body {
                rest -= part.readableBytes
                if rest < 0 { return }
            }
        } catch {
            // Only the status counts, and it has come.
            return
        }
    }

    private static func outcome(_ status: Int, retryAfter: Duration?) -> Outcome {
        switch status {
        case 200..<300: Outcome(.delivered, status: status)
        case 410: Outcome(.gone, status: status, error: "status_410")
        case 300..<400: Outcome(.failed, status: status, error: "redirect_not_followed", retryAfter: retryAfter)
        default: Outcome(.failed, status: status, error: "status_\(status)", retryAfter: retryAfter)
        }
    }

    /// Short, and without text of the receiver.
    private static func words(_ error: any Error) -> String {
        if let error = error as? HTTPClientError { return "http: \(error.shortDescription)" }
        if error is CancellationError { return "timeout" }
        return "connection: \(OutsideText.harmless(String(String(describing: error).prefix(100))) ?? "failed")"
    }
}

/// A webhook's URL, taken apart and put together again, so that the service connects to exactly what it checked: a host name of letters,
/// digits, hyphens and full stops, no user, no fragment.
package struct WebhookURL: Hashable, Sendable {
    package static let maximumBytes = 2048
    package static let rule = "https, a host name, no user and no fragment, at most \(maximumBytes) bytes"

    package let text: String
    package let host: String
    package let port: Int

    /// - Parameter allowsHTTP: Whether `http` is taken too, for development.
    package init?(_ text: String, allowsHTTP: Bool) {
        guard text.utf8.count <= Self.maximumBytes, text.utf8.allSatisfy({ (0x21...0x7e).contains($0) }),
            let url = SettingURL(text), url.scheme == "https" || allowsHTTP && url.scheme == "http", !url.hasUser, !url.hasFragment,
            Self.isName(url.host.lowercased())
        else { return nil }
        host = url.host.lowercased()
        port = url.port ?? (url.scheme == "https" ? 443 : 80)
        let path = url.percentEncodedPath.isEmpty ? "/" : url.percentEncodedPath
        let query = url.percentEncodedQuery.map { "?" + $0 } ?? ""
        self.text = "\(url.scheme)://\(host)" + (url.port.map { ":\($0)" } ?? "") + path + query
    }

    private static func isName(_ host: String) -> Bool {
        (1...253).contains(host.utf8.count)
            && host.utf8.allSatisfy { byte in
                switch byte {
                case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "."):
                    true
                default: false
                }
            }
    }
}

/// Finds the addresses of a webhook's host and checks them by ``AddressRules``: when the webhook is made or changed, and again before each
/// connection, because the name may have another address by then.
package struct WebhookAddresses: Sendable {
    package struct Refused: Error {
        /// What the webhook's owner is told.
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
    func checked(host: String, port: Int, for app: App.ID) async throws -> [SystemIO.SocketAddress] {
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
