import Logging
import Metrics
import RabbitMQ
import Synchronization
import SystemIO

struct ConsumerSettings: Sendable {
    let link: BrokerLink.Settings
    let subscriptions: [Subscription]
    let silenceLimit: Duration
    let onMessages: @Sendable ([ReceivedMessage]) -> Void
    let onConnectionChange: @Sendable (Bool) -> Void
}

/// The state that callers share with the consumer's thread.
final class ConsumerCore: Sendable {
    enum Command: Sendable {
        case acknowledge([DeliveryTag])
        case giveBack([DeliveryTag])
        case discard([DeliveryTag])
        case stopTaking
        case readAnew(because: String, leavingNode: Bool)
    }

    struct Status {
        var isConnected = false
        /// The connection's peer.
        var peer: String?
        var unsettled = 0
        /// Set once a stop was requested.
        var stopAt: ContinuousClock.Instant?
    }

    let settings: ConsumerSettings
    let logger: Logger
    let wakeUp: WakeUp
    let inbox: Mailbox<Command>
    let status = Mutex(Status())
    let metrics: ConsumerMetrics

    init(settings: ConsumerSettings, logger: Logger) throws(SystemError) {
        self.settings = settings
        self.logger = logger
        wakeUp = try WakeUp()
        inbox = Mailbox(wakeUp: wakeUp)
        metrics = ConsumerMetrics(client: settings.link.name)
    }

    func stop(within bound: Duration) {
        status.withLock { status in
            let moment = ContinuousClock.now + bound
            status.stopAt = min(status.stopAt ?? moment, moment)
        }
        wakeUp.signal()
    }
}

struct ConsumerMetrics: Sendable {
    let received: Counter
    let oversized: Counter
    let renewals: Counter

    init(client: String) {
        let dimensions = [(MetricName.client, client)]
        received = Counter(label: MetricName.received, dimensions: dimensions)
        oversized = Counter(label: MetricName.oversized, dimensions: dimensions)
        renewals = Counter(label: MetricName.renewals, dimensions: dimensions)
    }
}
