import AsyncHTTPClient
import Logging
import NIOCore
import NIOHTTP1
import Observability
import PushModel
import SystemIO
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

    /// Of an answer's body; a longer one's connection is closed.
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
        request.headers.add(name: "content-type", value: PushEvent.contentType)
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
