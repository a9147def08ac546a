import Metrics
package import Observability
import TokenServiceKit

/// Counts the progress of fan-outs through audiences.
package struct FanOutMetrics: Sendable {
    private let live: GaugeMetric
    private let read: Counter
    private let jobs: Counter
    private let oldest: GaugeMetric

    package init(_ registry: PrometheusMetrics) {
        live = registry.gauge("push_token_service_fan_outs_live", "Fan-outs through audiences that are under way in this process.")
        read = registry.counter(
            "push_token_service_fan_out_installations_total", "Installations, and entries of lists, that fan-outs have looked at.")
        jobs = registry.counter("push_token_service_fan_out_jobs_total", "Jobs that fan-outs have written.")
        oldest = registry.gauge(
            "push_token_service_fan_out_oldest_age_seconds",
            "How long the oldest unfinished fan-out of the fleet has been due; alert when it grows while "
                + "`fan_out_installations_total` stands still.")
    }

    func observe(_ fanOuts: FanOutWatch) {
        live.observe { Double(fanOuts.live) }
        oldest.observe { fanOuts.oldestAge(now: UnixTime.milliseconds()) }
    }

    func fannedOut(read: Int, jobs: Int) {
        self.read.increment(by: read)
        self.jobs.increment(by: jobs)
    }
}
