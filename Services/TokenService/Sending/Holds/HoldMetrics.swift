import Metrics
package import Observability

/// Counts holds and the work that they put aside.
package struct HoldMetrics: Sendable {
    private let holds: GaugeMetric
    private let heldBack: Counter

    package init(_ registry: PrometheusMetrics) {
        holds = registry.gauge("push_token_service_holds", "What is held: scopes with a hold in force, as this process saw them last.")
        heldBack = registry.counter(
            "push_token_service_publish_held_total",
            "Fan-outs and jobs that were due and put aside because of a hold, each time that they were.")
    }

    func observe(_ cache: HoldCache) { holds.observe { Double(cache.count) } }
    func putAside(_ number: Int) { heldBack.increment(by: number) }
}
