/// Every log metadata key of this module. Units are in the name.
enum BrokerLogKey {
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
    static let stalledQueues = "push_broker_stalled_queues"
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

/// What the metrics and log keys of this module mean, for `/metrics` of the service that uses it and for the handbook.
package enum BrokerMetrics {
    package static let all: [(name: String, labels: [String], help: String)] = [
        (
            MetricName.published, [MetricName.client, MetricName.outcome],
            "Messages by the broker's answer: confirmed, nacked, unroutable, full, stalled, withdrawn, disconnected, stopped, invalid."
        ),
        (
            MetricName.republished, [MetricName.client],
            "Publishes repeated because their connection or channel was given up before the confirm."
        ),
        (MetricName.publishPending, [MetricName.client], "Messages taken from callers and not settled yet."),
        (
            MetricName.stalledQueues, [MetricName.client],
            "Destinations whose queues have owed a confirmation for more than a second while others answered, or for more than nine."
        ),
        (MetricName.received, [MetricName.client], "Messages received."),
        (MetricName.oversized, [MetricName.client], "Messages too large to keep, passed to the dead-letter exchange."),
        (MetricName.connectionFailures, [MetricName.client], "Connections that were lost or could not be made."),
        (MetricName.connected, [MetricName.client], "1 while there is a connection to the broker."),
        (MetricName.blocked, [MetricName.client], "1 while the broker's resource alarm blocks publishing."),
        (MetricName.renewals, [MetricName.client], "Connections that a consumer made anew because a queue was another one than before."),
        (MetricName.watchdogCuts, [MetricName.client], "Hanging connections that the watchdog cut."),
    ]

    package static let logKeys: [(name: String, meaning: String)] = [
        (BrokerLogKey.broker, "host and port of a RabbitMQ node"),
        (
            BrokerLogKey.client,
            """
            what a connection to RabbitMQ is for: `publisher`, `markers`, `jobs-now` and the other lanes, `control`, `commands` or \
            `consumer`
            """
        ),
        (BrokerLogKey.error, "the library's or the server's own words"),
        (BrokerLogKey.reason, "why, in one word or in the other side's words"),
        (BrokerLogKey.queue, "a queue or a stream"),
        (BrokerLogKey.retryMilliseconds, "until the next attempt"),
        (BrokerLogKey.unconfirmed, "messages that the broker has not confirmed"),
        (BrokerLogKey.unsettled, "messages that a consumer has not acknowledged"),
        (BrokerLogKey.count, "how many"),
        (BrokerLogKey.failures, "attempts to connect that failed since there was a connection"),
        (BrokerLogKey.outageMilliseconds, "how long there was no connection"),
    ]
}
