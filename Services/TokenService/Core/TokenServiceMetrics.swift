import Observability
import Postgres
import TokenServiceAPI
import TokenServiceApps
import TokenServiceEvents
import TokenServiceOutcomes
import TokenServiceRegistry
import TokenServiceSending
import TokenServiceUpkeep

/// Every room's metrics, in the order of the reference. Only ``TokenService`` knows them all; it gives each room its own.
struct TokenServiceMetrics: Sendable {
    let requests: RequestMetrics
    let limits: LimitMetrics
    let registrations: RegistryMetrics
    let notifications: NotificationMetrics
    let publishing: PublishingMetrics
    let holds: HoldMetrics
    let fanOuts: FanOutMetrics
    let outcomes: OutcomeMetrics
    let deadLetters: DeadLetterMetrics
    let deviceReceipts: DeviceReceiptMetrics
    let events: EventMetrics
    let webhooks: WebhookMetrics
    let channels: ChannelMetrics
    let housekeeping: HousekeepingMetrics
    let privacy: PrivacyMetrics
    private let connections: GaugeMetric

    init(registry: PrometheusMetrics) {
        requests = RequestMetrics(registry)
        limits = LimitMetrics(registry)
        registrations = RegistryMetrics(registry)
        notifications = NotificationMetrics(registry)
        publishing = PublishingMetrics(registry)
        holds = HoldMetrics(registry)
        fanOuts = FanOutMetrics(registry)
        outcomes = OutcomeMetrics(registry, notifications: notifications)
        deadLetters = DeadLetterMetrics(registry)
        deviceReceipts = DeviceReceiptMetrics(registry)
        events = EventMetrics(registry)
        webhooks = WebhookMetrics(registry)
        channels = ChannelMetrics(registry)
        housekeeping = HousekeepingMetrics(registry)
        privacy = PrivacyMetrics(registry)
        connections = registry.gauge(
            "push_token_service_postgres_connections", ["pool", "state"],
            "The pools: `requests`, and `background` for the services of the process. State: idle, busy, waiting.")
    }

    func observe(_ pool: PostgresPool, named name: String) {
        connections.observe(name, "idle") { Double(pool.gauges.idle) }
        connections.observe(name, "busy") { Double(pool.gauges.busy) }
        connections.observe(name, "waiting") { Double(pool.gauges.waiting) }
    }
}
