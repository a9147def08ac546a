import Metrics
package import Observability
import TokenServiceApps

/// Counts published events and shows how many wait.
package struct EventMetrics: Sendable {
    private let published: MetricSeries<Counter>
    let waiting: GaugeMetric

    package init(_ registry: PrometheusMetrics) {
        published = registry.counters(
            "push_token_service_events_published_total", ["log", "sink"],
            "State changes that were published, or looked at for webhooks. Log: notifications, installations, device_receipts; "
                + "Sink: broker, webhooks.")
        for log in EventLog.allCases { for sink in EventSink.Kind.allCases { _ = published[log.rawValue, sink.rawValue] } }
        waiting = registry.gauge(
            "push_token_service_events_waiting", ["log", "sink"],
            "Rows of a log that this process is still to read; 0 in processes that do not read it; alert when it grows. The sink `counts`: "
                + "device receipts that are not in their notifications' counts yet.")
    }

    func observe(_ feeds: [EventFeed]) {
        for feed in feeds { waiting.observe(feed.name.log.rawValue, feed.name.sink.rawValue) { Double(feed.waitingCount) } }
    }

    func publishedEvents(_ number: Int, of feed: EventFeed.Name) {
        published[feed.log.rawValue, feed.sink.rawValue].increment(by: number)
    }
}
