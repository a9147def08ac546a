import AsyncHTTPClient
import NIOCore
import NIOHTTP1
import StrictJSON

/// HTTP like a careful client: every request has a deadline, and a missing answer is distinct from a refusal.
struct ServiceCaller: Sendable {
    /// A client's patience for one attempt.
    static let patience = Duration.seconds(20)

    enum Method: String {
        case get = "GET"
        case post = "POST"
        case put = "PUT"
        case delete = "DELETE"
    }

    struct Answer: Sendable {
        let status: Int
        /// Null where the body is empty or no JSON.
        let body: JSONValue?
        let retryAfterSeconds: Int?
    }

    private let http: HTTPClient

    init() {
        var configuration = HTTPClient.Configuration()
        configuration.httpVersion = .http1Only
        configuration.timeout.connect = .seconds(2)
        configuration.connectionPool.concurrentHTTP1ConnectionsPerHostSoftLimit = 128
        configuration.connectionPool.retryConnectionEstablishment = false
        http = HTTPClient(eventLoopGroupProvider: .singleton, configuration: configuration)
    }

    func close() async throws { try await http.shutdown() }

    /// - Returns: nil if no whole answer came. Then the effect of the request is unknown.
    func call(
        _ method: Method, _ url: String, key: String? = nil, idempotencyKey: String? = nil, body: [UInt8]? = nil,
        patience: Duration = Self.patience
    ) async -> Answer? {
        var request = HTTPClientRequest(url: url)
        request.method = HTTPMethod(rawValue: method.rawValue)
        if let key { request.headers.add(name: "authorization", value: "Bearer \(key)") }
        if let idempotencyKey { request.headers.add(name: "idempotency-key", value: idempotencyKey) }
        if let body {
            request.headers.add(name: "content-type", value: "application/json")
            request.body = .bytes(body)
        }
        do {
            let response = try await http.execute(request, timeout: TimeAmount(patience))
            let bytes = Array(try await response.body.collect(upTo: 64 << 20).readableBytesView)
            return Answer(
                status: Int(response.status.code), body: bytes.isEmpty ? nil : try? JSONValue.parse(bytes, maximumBytes: 64 << 20),
                retryAfterSeconds: response.headers.first(name: "retry-after").flatMap { Int($0) })
        } catch { return nil }  // refused, cut, timed out: in all cases the result is unknown
    }

    /// For requests that must succeed before the run begins.
    func mustCall(_ method: Method, _ url: String, key: String? = nil, body: [UInt8]? = nil) async throws -> JSONValue? {
        guard let answer = await call(method, url, key: key, body: body) else { throw ChaosError("\(method.rawValue) \(url): no answer") }
        guard (200..<300).contains(answer.status) else { throw ChaosError("\(method.rawValue) \(url) was answered \(answer.status)") }
        return answer.body
    }

    static func json(_ body: (inout JSONWriter) -> Void) -> [UInt8] {
        var writer = JSONWriter()
        writer.object(body)
        return writer.bytes
    }
}
