package import Broker
package import Logging
import Observability
package import Postgres
package import ServiceLifecycle
import TokenServiceApps
package import TokenServiceKit
package import TokenServiceSending

/// All parts that publish events.
package struct EventStream: Sendable {
    package let subscriptions: WebhookSubscriptions
    let addresses: WebhookAddresses
    /// Wakes the dispatcher of webhooks.
    package let wakeUp: WorkSignal
    /// In the order in which they start.
    package let services: [any Service]

    package init(
        _ webhooks: WebhookSettings, pool: PostgresPool, publisher: Publisher, topology: Topology, marks: OutboxMarks,
        metrics: EventMetrics, webhookMetrics: WebhookMetrics, logger: Logger
    ) {
        let wakeUp = WorkSignal()
        self.wakeUp = wakeUp
        subscriptions = WebhookSubscriptions(pool: pool, wakeUp: wakeUp)
        let dispatcher = WebhookDispatcher(
            pool: pool, settings: webhooks, waiting: marks.webhookMessages, wakeUp: wakeUp, metrics: webhookMetrics,
            logger: logger)
        addresses = dispatcher.addresses
        let sinks: [(EventSink.Kind, EventSink)] = [(.broker, .broker(publisher, topology)), (.webhooks, .webhooks(wakeUp))]
        let feeds = sinks.flatMap { kind, sink in
            EventLog.allCases.map { log in
                EventFeed(name: EventFeed.Name(log: log, sink: kind), pool: pool, sink: sink, metrics: metrics, logger: logger)
            }
        }
        let counter = DeviceReceiptCounter(pool: pool, logger: logger)
        metrics.observe(feeds)
        metrics.waiting.observe(EventLog.deviceReceipts.rawValue, "counts") { Double(counter.waitingCount) }
        webhookMetrics.lag.observe { dispatcher.lag }
        services = [dispatcher] + feeds + [counter]
    }
}
