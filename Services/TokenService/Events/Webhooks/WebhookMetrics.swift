import Metrics
package import Observability

/// Counts attempts of webhooks, and webhooks that were disabled.
package struct WebhookMetrics: Sendable {
    private let attempts: [WebhookAttempt.Outcome.Result: Counter]
    private let messagesFailed: Counter
    private let disabled: [Webhook.DisabledReason: Counter]
    let lag: GaugeMetric

    package init(_ registry: PrometheusMetrics) {
        attempts = registry.counters(
            "push_token_service_webhook_attempts_total", by: "result", WebhookAttempt.Outcome.Result.self,
            "Attempts; `refused`: the name leads where nothing may be sent. Result: delivered, failed, gone, refused.")
        messagesFailed = registry.counter(
            "push_token_service_webhook_messages_failed_total", "Messages that were given up after their last attempt.")
        disabled = registry.counters(
            "push_token_service_webhooks_disabled_total", by: "reason", Webhook.DisabledReason.self,
            "Webhooks that were disabled because of what their receivers did; inform their owners. Reason: gone, failing, "
                + "backlog_full.")
        lag = registry.gauge(
            "push_token_service_webhook_lag_seconds",
            "For how long the message that is due longest has waited; looked at every ten seconds; alert above a minute.")
    }

    func webhookAttempt(_ result: WebhookAttempt.Outcome.Result) { attempts[result]?.increment() }
    func webhookMessageFailed() { messagesFailed.increment() }
    func webhookDisabled(_ reason: Webhook.DisabledReason) { disabled[reason]?.increment() }
}
