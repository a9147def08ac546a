import Metrics
package import Observability
import Synchronization
import TokenServiceKit

/// The progress of this process's fan-outs, and the unfinished one of the fleet that has been due for longest.
package final class FanOutWatch: Sendable {
    private struct State {
        var live = 0
        var oldestDue: Int64?
    }

    private let metrics: FanOutMetrics
    private let state = Mutex(State())

    package init(metrics: FanOutMetrics) { self.metrics = metrics }

    /// Fan-outs under way in this process.
    package var live: Int { state.withLock { $0.live } }

    /// How long the oldest unfinished fan-out of the fleet has been due, in seconds; 0 where there is none.
    package func oldestAge(now: Int64) -> Double {
        state.withLock { state in state.oldestDue.map { Double(max(0, now - $0)) / 1000 } ?? 0 }
    }

    func began() { state.withLock { $0.live += 1 } }
    func ended() { state.withLock { $0.live -= 1 } }

    /// A page is committed.
    func wrote(_ page: PendingFanOut.Page) { metrics.fannedOut(read: page.read, jobs: page.jobs.count) }

    /// - Parameter oldestDue: UNIX milliseconds.
    func measured(oldestDue: Int64?) { state.withLock { $0.oldestDue = oldestDue } }
}

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
