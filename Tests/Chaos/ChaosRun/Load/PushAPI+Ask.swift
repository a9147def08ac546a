import AsyncHTTPClient
import NIOCore
import PushAPI

/// A careful client: every request has a deadline, and a missing answer is distinct from a refusal. The load itself decides which requests
/// it repeats.
extension PushAPI {
    /// The platform's services and the simulator, which a call names.
    static func ofChaos(_ http: HTTPClient) -> PushAPI { PushAPI(baseURL: "", key: nil, http: http, attemptTimeout: .seconds(20)) }

    /// One attempt.
    /// - Returns: nil if no whole answer came. Then the effect of the request is unknown.
    func ask(_ call: Call, at url: String, key: String? = nil) async -> Answer? { try? await other(baseURL: url, key: key).once(call) }

    func isWell(_ path: String, at url: String, within limit: Duration = .seconds(2)) async -> Bool {
        await other(baseURL: url, key: nil).answers(path, within: limit)
    }
}

extension HTTPClient.Configuration {
    static var ofChaos: HTTPClient.Configuration {
        var configuration = HTTPClient.Configuration()
        configuration.httpVersion = .http1Only
        configuration.timeout.connect = .seconds(2)
        configuration.connectionPool.concurrentHTTP1ConnectionsPerHostSoftLimit = 128
        configuration.connectionPool.retryConnectionEstablishment = false
        return configuration
    }
}
