import Logging
import Metrics
import RabbitMQ
import Synchronization
import SystemIO

struct PublisherSettings: Sendable {
    let link: BrokerLink.Settings
    let window: Int
    let windowBytes = 1 << 20
    let maximumPending: Int
    let maximumPendingBytes = 64 << 20
    let confirmLimit: Duration
    let outageLimit: Duration?
    let isOrdered: Bool
}

/// The state that callers share with the publisher's thread.
final class PublisherCore: Sendable {
    struct Submission: Sendable {
        let messages: [OutgoingMessage]
        let onAnswers: @Sendable ([PublishAnswer]) -> Void
    }

    struct Status {
        var state = PublisherState.connecting
        /// The connection's peer.
        var peer: String?
        var pending = 0
        var stalledLines = 0
        var pendingBytes = 0
        /// Set once a stop was requested.
        var stopAt: ContinuousClock.Instant?
        /// Why the connection is to be given up.
        var reconnectReason: String?
    }

    let settings: PublisherSettings
    let logger: Logger
    let wakeUp: WakeUp
    let inbox: Mailbox<Submission>
    let status = Mutex(Status())
    let metrics: PublisherMetrics

    init(settings: PublisherSettings, logger: Logger) throws(SystemError) {
        self.settings = settings
        self.logger = logger
        wakeUp = try WakeUp()
        inbox = Mailbox(wakeUp: wakeUp)
        metrics = PublisherMetrics(client: settings.link.name)
    }

    func submit(_ messages: [OutgoingMessage], _ onAnswers: @escaping @Sendable ([PublishAnswer]) -> Void) {
        let bytes = messages.reduce(0) { $0 + $1.body.count }
        let isTaken = status.withLock { status in
            // An idle publisher takes one submission of any size: refusing it would not help the caller.
            guard
                status.pending == 0
                    || (status.pending + messages.count <= settings.maximumPending
                        && status.pendingBytes + bytes <= settings.maximumPendingBytes)
            else { return false }
            status.pending += messages.count
            status.pendingBytes += bytes
            return true
        }
        guard isTaken else { return refuse(messages, .full, onAnswers) }
        guard inbox.post(Submission(messages: messages, onAnswers: onAnswers)) else {
            settled(messages: messages.count, bytes: bytes)
            return refuse(messages, .stopped, onAnswers)
        }
    }

    private func refuse(_ messages: [OutgoingMessage], _ failure: PublishFailure, _ onAnswers: ([PublishAnswer]) -> Void) {
        metrics.count(.failed(failure), messages.count)
        onAnswers(messages.indices.map { PublishAnswer(index: $0, outcome: .failed(failure)) })
    }

    /// Gives room back.
    func settled(messages: Int, bytes: Int) {
        let pending = status.withLock { status in
            status.pending -= messages
            status.pendingBytes -= bytes
            return status.pending
        }
        metrics.pending.record(pending)
    }

    func stop(within bound: Duration) {
        status.withLock { status in
            let moment = ContinuousClock.now + bound
            status.stopAt = min(status.stopAt ?? moment, moment)
        }
        wakeUp.signal()
    }

    func reconnect(because reason: String) {
        status.withLock { $0.reconnectReason = reason }
        wakeUp.signal()
    }
}

struct PublisherMetrics: Sendable {
    let pending: Gauge
    let blocked: Gauge
    let republished: Counter
    let stalled: Gauge
    private let outcomes: [String: Counter]

    init(client: String) {
        let dimensions = [(MetricName.client, client)]
        pending = Gauge(label: MetricName.publishPending, dimensions: dimensions)
        blocked = Gauge(label: MetricName.blocked, dimensions: dimensions)
        republished = Counter(label: MetricName.republished, dimensions: dimensions)
        stalled = Gauge(label: MetricName.stalledQueues, dimensions: dimensions)
        let labels = ["confirmed", "nacked", "unroutable", "full", "stalled", "withdrawn", "disconnected", "stopped", "invalid"]
        outcomes = Dictionary(
            uniqueKeysWithValues: labels.map {
                ($0, Counter(label: MetricName.published, dimensions: dimensions + [(MetricName.outcome, $0)]))
            })
    }

    func count(_ outcome: PublishOutcome, _ messages: Int) {
        let label =
            switch outcome {
            case .confirmed, .confirmedElsewhere: "confirmed"
            case .failed(let failure): "\(failure)"
            }
        outcomes[label]?.increment(by: messages)
    }
}
