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
    /// Counter, dimension `outcome`: confirmed, nacked, unroutable, full, stopped, invalid.
    static let published = "push_broker_published_total"
    /// Counter: publishes repeated because their connection was lost before the confirm.
    static let republished = "push_broker_republished_total"
    /// Gauge: taken from callers and not yet settled.
    static let publishPending = "push_broker_publish_pending"
    /// Counter.
    static let received = "push_broker_received_total"
    /// Counter: messages too large to keep, passed to the dead-letter exchange.
    static let oversized = "push_broker_oversized_total"
    /// Counter: connections that were lost or could not be made.
    static let connectionFailures = "push_broker_connection_failures_total"
    /// Gauge: 1 connected, 0 not.
    static let connected = "push_broker_connected"
    /// Gauge: 1 while the broker's resource alarm blocks us.
    static let blocked = "push_broker_blocked"
    /// Counter: connections that a consumer made anew because a queue was another one than before.
    static let renewals = "push_broker_connection_renewals_total"
    /// Counter: hanging connections that the watchdog cut.
    static let watchdogCuts = "push_broker_watchdog_cuts_total"

    static let client = "client"
    static let outcome = "outcome"
}
