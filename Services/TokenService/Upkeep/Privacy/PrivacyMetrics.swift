import Metrics
package import Observability

/// Counts erasures.
package struct PrivacyMetrics: Sendable {
    private let erasures: Counter

    package init(_ registry: PrometheusMetrics) {
        erasures = registry.counter("push_token_service_users_erased_total", "Users erased by request, repetitions included.")
    }

    func erased() { erasures.increment() }
}
