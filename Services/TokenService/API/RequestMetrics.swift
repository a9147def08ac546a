import Metrics
package import Observability
import Synchronization

/// Counts and times HTTP requests.
package struct RequestMetrics: Sendable {
    private let requests: MetricSeries<Counter>
    private let times: MetricSeries<Timer>
    package let inProgress: GaugeMetric
    package let reading: GaugeMetric
    package let streams: GaugeMetric
    private let internalErrors: Counter
    /// Kept, because making a series costs more than counting.
    private let known = KnownRequests()

    package init(_ registry: PrometheusMetrics) {
        requests = registry.counters(
            "push_token_service_http_requests_total", ["method", "route", "status"],
            "Requests answered; the method is one of RFC 9110's, PATCH or `other`. The route is `none` for an unknown path, "
                + "and for a request that is refused before its path is read.")
        times = registry.timers("push_token_service_http_request_duration_seconds", ["method", "route"], "Time to answer.")
        inProgress = registry.gauge(
            "push_token_service_http_requests_in_progress", "Requests that are being worked on. Their bodies are there.")
        reading = registry.gauge("push_token_service_http_requests_reading", "Requests whose body is still to come.")
        streams = registry.gauge("push_token_service_http_streams_in_progress", "Imports and exports that are under way.")
        internalErrors = registry.counter(
            "push_token_service_internal_errors_total",
            "Requests, and items of requests, that failed through the service's own fault; the log says why.")
    }

    package func internalError() { internalErrors.increment() }

    func answered(route: String, method: String, status: Int, took: Duration) {
        let series = known.series(route: route, method: method, status: status) {
            KnownRequests.Series(counter: requests[method, route, "\(status)"], timer: times[method, route])
        }
        series.counter.increment()
        series.timer.record(duration: took)
    }
}

/// The series of requests by method, route and status: few, because all come from closed sets.
private final class KnownRequests: Sendable {
    struct Series: Sendable {
        let counter: Counter
        let timer: Metrics.Timer
    }

    private struct Key: Hashable {
        let route: String
        let method: String
        let status: Int
    }

    private let known = Mutex<[Key: Series]>([:])

    func series(route: String, method: String, status: Int, make: () -> Series) -> Series {
        let key = Key(route: route, method: method, status: status)
        if let series = known.withLock({ $0[key] }) { return series }
        let made = make()
        known.withLock { $0[key] = made }
        return made
    }
}
