import Metrics
package import Observability

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
