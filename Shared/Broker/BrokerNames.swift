/// Every log metadata key of this module. Units are in the name.
enum LogKey {
    static let broker = "broker"
    static let client = "client"
    static let error = "error"
    static let reason = "reason"
    static let queue = "queue"
    static let retryMilliseconds = "retry_ms"
    static let unconfirmed = "unconfirmed"
    static let unsettled = "unsettled"
    static let count = "count"
    /// Attempts to connect that failed since there was a connection.
    static let failures = "failures"
    /// How long there was no connection.
    static let outageMilliseconds = "outage_ms"
}

/// Every metric of this module. The dimension `client` is the publisher's or consumer's name: a closed set.
enum MetricName {
    static let published = "push_broker_published_total"
    static let republished = "push_broker_republished_total"
    static let publishPending = "push_broker_publish_pending"
    static let received = "push_broker_received_total"
    static let oversized = "push_broker_oversized_total"
    static let connectionFailures = "push_broker_connection_failures_total"
    static let connected = "push_broker_connected"
    static let blocked = "push_broker_blocked"
    static let renewals = "push_broker_connection_renewals_total"
    static let watchdogCuts = "push_broker_watchdog_cuts_total"

    static let client = "client"
    static let outcome = "outcome"
}

/// What the metrics of this module mean, for the page of the service that uses it.
package enum BrokerMetrics {
    /// Names and their help texts.
    package static let help: [(name: String, text: String)] = [
        (MetricName.published, "Messages by the broker's answer: confirmed, nacked, unroutable, full, stopped, invalid."),
        (MetricName.republished, "Publishes repeated because their connection was lost before the confirm."),
        (MetricName.publishPending, "Messages taken from callers and not settled yet."),
        (MetricName.received, "Messages received."),
        (MetricName.oversized, "Messages too large to keep, passed to the dead-letter exchange."),
        (MetricName.connectionFailures, "Connections that were lost or could not be made."),
        (MetricName.connected, "1 while there is a connection to the broker."),
        (MetricName.blocked, "1 while the broker's resource alarm blocks publishing."),
        (MetricName.renewals, "Connections that a consumer made anew because a queue was another one than before."),
        (MetricName.watchdogCuts, "Hanging connections that the watchdog cut."),
    ]
}
