import Metrics
package import Observability
import Synchronization
package import TokenServiceKit

/// Refuses requests at once when more are in progress than can be answered soon. Admitted requests stay fast, and callers learn early that
/// they should come back.
///
/// A request is in progress once its body is there: a client that sends its body slowly keeps no other client out.
package final class LoadShedding: Sendable {
    package enum Reason: String, Sendable, CaseIterable {
        case requests, streams, uploads, bodies
    }

    private let limits: RequestLimits
    private let metrics: LimitMetrics
    private let inProgress = Atomic<Int>(0)
    private let reading = Atomic<Int>(0)

    package init(limits: RequestLimits, metrics: LimitMetrics) {
        self.limits = limits
        self.metrics = metrics
    }

    package var requestsInProgress: Int { inProgress.load(ordering: .relaxed) }
    /// Requests whose body is still to come.
    package var requestsReading: Int { reading.load(ordering: .relaxed) }

    /// Counts a request in; ``end()`` must follow.
    /// - Throws: ``APIError`` 503 `overloaded`; it is not counted then.
    package func begin() throws(APIError) {
        do { try check(inProgress.add(1, ordering: .relaxed).oldValue) } catch {
            end()
            throw error
        }
    }

    package func end() { inProgress.subtract(1, ordering: .relaxed) }

    /// Reads the body of a request that was counted in. It is not in progress until the body is there, and again afterwards.
    /// - Throws: ``APIError`` 503 `overloaded` if there is no room for it any more.
    func whileReading<Body>(_ read: () async throws -> Body) async throws -> Body {
        end()
        reading.add(1, ordering: .relaxed)
        let body: Result<Body, any Error>
        do { body = .success(try await read()) } catch { body = .failure(error) }
        reading.subtract(1, ordering: .relaxed)
        let others = inProgress.add(1, ordering: .relaxed).oldValue
        let found = try body.get()
        try check(others)
        return found
    }

    private func check(_ others: Int) throws(APIError) {
        guard others >= limits.concurrentRequests else { return }
        metrics.shed(.requests)
        throw APIError.overloaded
    }
}

extension APIError {
    /// - Parameter reason: What the caller has its share of.
    package static func concurrencyLimited(_ reason: LoadShedding.Reason) -> APIError {
        APIError(
            .concurrencyLimited,
            "this key, device or app has as many \(reason.plural) as one may have in each instance of the service")
    }

    /// The caller has used up what is its own; others are still served.
    var isOfCaller: Bool { code == .concurrencyLimited }
}

extension LoadShedding.Reason {
    /// What a caller has too many of.
    fileprivate var plural: String {
        switch self {
        case .requests: "requests in progress"
        case .streams: "imports and exports under way"
        case .uploads: "uploads under way"
        case .bodies: "bytes of large bodies in memory"
        }
    }
}

/// Counts refused requests.
package struct LimitMetrics: Sendable {
    private let ofCallers: [CallerLimit: Counter]
    private let ofService: [LoadShedding.Reason: Counter]

    package init(_ registry: PrometheusMetrics) {
        ofCallers = registry.counters(
            "push_token_service_http_requests_rate_limited_total", by: "limit", CallerLimit.self,
            "Answers 429: one caller has used up what is its own. Limit: rate, or its share of requests, streams, uploads, bodies.")
        ofService = registry.counters(
            "push_token_service_http_requests_shed_total", by: "reason", LoadShedding.Reason.self,
            "Answers 503 `overloaded`; start more instances when it grows. Reason: requests, streams, uploads, bodies.")
    }

    /// What a caller has used up that is its own.
    package enum CallerLimit: String, CaseIterable {
        case rate, requests, streams, uploads, bodies

        init(_ reason: LoadShedding.Reason) {
            self =
                switch reason {
                case .requests: .requests
                case .streams: .streams
                case .uploads: .uploads
                case .bodies: .bodies
                }
        }
    }

    package func limited(_ limit: CallerLimit) { ofCallers[limit]?.increment() }
    func shed(_ reason: LoadShedding.Reason) { ofService[reason]?.increment() }
}
