package import Observability

/// Shows the broadcast channels by their state.
package struct ChannelMetrics: Sendable {
    let channels: GaugeMetric
    let largestShare: GaugeMetric
    let pending: GaugeMetric

    package init(_ registry: PrometheusMetrics) {
        channels = registry.gauge(
            "push_token_service_channels", ["environment", "state"],
            "Broadcast channels, looked at every 15 s by each process: use the largest; alert on any in state `lost`. State: creating, open, "
                + "deleting, failed, foreign, lost.")
        largestShare = registry.gauge(
            "push_token_service_channels_largest_share",
            "The largest share of Apple's 10,000 channels that one app has in one environment, from 0 to 1; alert above 0.9.")
        pending = registry.gauge(
            "push_token_service_channels_pending_seconds",
            "For how long the channel that waits longest has been `creating` or `deleting`; alert above 600.")
    }
}
