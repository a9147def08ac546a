import Metrics
package import Observability

/// Counts replayed and dropped dead letters.
package struct DeadLetterMetrics: Sendable {
    private let replayed: Counter
    private let dropped: Counter

    package init(_ registry: PrometheusMetrics) {
        replayed = registry.counter("push_token_service_dead_letters_replayed_total", "Dead letters that were replayed and are gone.")
        dropped = registry.counter("push_token_service_dead_letters_dropped_total", "Dead letters that were dropped.")
    }

    func deadLetters(replayed number: Int) { replayed.increment(by: number) }
    func deadLetters(dropped number: Int) { dropped.increment(by: number) }
}
