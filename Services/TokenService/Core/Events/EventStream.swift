import Broker
import Logging
import Postgres
package import ServiceLifecycle

/// Everything that tells others what happens, put together.
package struct EventStream: Sendable {
    package let directory: WebhookDirectory
    /// Wakes the courier.
    package let pulse: WebhookPulse
    /// In the order in which they start.
    package let services: [any Service]

    init(
        _ configuration: TokenServiceConfiguration, pool: PostgresPool, publisher: Publisher, topology: Topology,
        metrics: TokenServiceMetrics, logger: Logger
    ) {
        let pulse = WebhookPulse()
        self.pulse = pulse
        directory = WebhookDirectory(pool: pool, pulse: pulse)
        let (events, webhooks) = (EventGauge(), WebhookGauge())
        metrics.observe(events, webhooks)
        let sinks: [(EventSink.Kind, EventSink)] = [(.broker, .broker(publisher, topology)), (.webhooks, .webhooks(pulse))]
        let feeds = sinks.flatMap { kind, sink in
            EventLog.allCases.map { log in
                EventFeed(
                    name: EventFeed.Name(log: log, sink: kind), pool: pool, sink: sink, gauge: events, metrics: metrics, logger: logger)
            }
        }
        services =
            [WebhookCourier(pool: pool, terms: configuration.webhooks, pulse: pulse, gauge: webhooks, metrics: metrics, logger: logger)]
            + feeds
    }
}
