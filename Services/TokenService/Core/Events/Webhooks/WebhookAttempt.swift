import AsyncHTTPClient
import Logging
import NIOCore
import NIOHTTP1
import Observability
import PushModel
import SystemIO

/// One POST of one message.
package struct WebhookAttempt: Sendable {
    package enum Outcome: Equatable, Sendable {
        case delivered(Int)
        /// Answered with 410: it wants no more.
        case gone
        /// - Parameters:
        ///   - status: nil where there was no answer.
        ///   - retryAfter: how long the other side asks to be left alone.
        case failed(status: Int?, error: String, retryAfter: Duration? = nil)
        /// The name leads where nothing may be sent.
        case refused(String)
    }

    /// What is read of an answer's body before its connection is dropped.
    private static let answerBytes = 16_384

    private let clients: WebhookClients
    private let terms: WebhookTerms

    package init(clients: WebhookClients, terms: WebhookTerms) {
        self.clients = clients
        self.terms = terms
    }

    /// Ends within the time limit, whatever the other side does.
    package func post(_ message: WebhookMessage.Claimed) async -> Outcome {
        guard let url = WebhookURL(message.url, allowsHTTP: terms.isInsecure) else {
            return .refused("url_not_allowed: \(WebhookURL.rule)")
        }
        return await withTaskGroup(of: Outcome?.self) { group in
            group.addTask { await self.exchange(message, url) }
            group.addTask { await Pause.of(self.terms.timeout) ? .failed(status: nil, error: "timeout") : nil }
            defer { group.cancelAll() }
            return await group.next().flatMap(\.self) ?? .failed(status: nil, error: "stopped")
        }
    }

    private func exchange(_ message: WebhookMessage.Claimed, _ url: WebhookURL) async -> Outcome {
        do {
            return try await clients.with(url) { client in
                let response = try await client.execute(request(message, url), deadline: .now() + .seconds(120))
                await Self.skip(response.body)
                return Self.outcome(
                    Int(response.status.code),
                    retryAfter: response.headers.first(name: "retry-after").flatMap {
                        RetryAfter.duration($0, now: UnixTime.milliseconds())
                    })
            }
        } catch let error as WebhookAddresses.Refused {
            return .refused("address_not_allowed: \(error.words)")
        } catch let error as ResolveError {
            return .failed(status: nil, error: "name_not_resolved: \(error.message)")
        } catch {
            return .failed(status: nil, error: Self.words(error))
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

    /// A short answer's connection can be used again; a longer one's is dropped.
    private static func skip(_ body: HTTPClientResponse.Body) async {
        var rest = answerBytes
        do {
            for try await part in body {
                rest -= part.readableBytes
                if rest < 0 { return }
            }
        } catch {
            // The status has come, and nothing else counts.
            return
        }
    }

    private static func outcome(_ status: Int, retryAfter: Duration?) -> Outcome {
        switch status {
        case 200..<300: .delivered(status)
        case 410: .gone
        case 300..<400: .failed(status: status, error: "redirect_not_followed", retryAfter: retryAfter)
        default: .failed(status: status, error: "status_\(status)", retryAfter: retryAfter)
        }
    }

    /// In short, and nothing of the other side's own words.
    private static func words(_ error: any Error) -> String {
        if let error = error as? HTTPClientError { return "http: \(error.shortDescription)" }
        if error is CancellationError { return "timeout" }
        return "connection: \(OutsideText.harmless(String(String(describing: error).prefix(100))) ?? "failed")"
    }
}
