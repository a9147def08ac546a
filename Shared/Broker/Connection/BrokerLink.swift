import Logging
import Metrics
import RabbitMQ
import SystemIO

/// A thread's connection to the broker. It opens it, declares the topology, and opens it again after growing pauses; it watches, logs and
/// counts. For its thread alone.
final class BrokerLink {
    struct Settings: Sendable {
        /// Of the thread, in logs and as metric dimension.
        let name: String
        let configuration: RabbitMQConfiguration
        let topology: Topology
        /// How long one round of the thread may take before its connection is cut.
        let watchdogLimit: Duration
    }

    /// A quarter of the heartbeat: librabbitmq answers heartbeats only while the thread reads (docs/rabbitmq.md, Heartbeats).
    static let longestWait = Duration.seconds(1)

    private(set) var connection: RabbitMQConnection?
    private let settings: Settings
    private let logger: Logger
    private let liveness = LoopLiveness()
    private let watchdog: Watchdog
    private let rest: Rest
    private let connected: Gauge
    private let failures: Counter
    private var delay = ReconnectDelay()
    private var retryAt = ContinuousClock.now

    init(_ settings: Settings, wokenBy wakeUp: WakeUp, logger: Logger) throws(SystemError) {
        self.settings = settings
        self.logger = logger
        rest = try Rest(wokenBy: wakeUp)
        watchdog = try Watchdog(over: liveness, client: settings.name, limit: settings.watchdogLimit, logger: logger)
        let dimensions = [(MetricName.client, settings.name)]
        connected = Gauge(label: MetricName.connected, dimensions: dimensions)
        failures = Counter(label: MetricName.connectionFailures, dimensions: dimensions)
    }

    deinit { watchdog.stop() }

    /// The thread is running.
    func passed() { liveness.passed() }

    /// Until the next attempt to connect; not above zero: it is due.
    var pause: Duration { ContinuousClock.now.duration(to: retryAt) }

    /// Sleeps until the thread is woken.
    func sleep(upTo duration: Duration) throws(SystemError) { try rest.take(upTo: duration) }

    /// - Parameters:
    ///   - mayGoOn: throws if the owner should stop.
    ///   - prepare: the owner's work on a new connection.
    ///   - opened: called once the connection is there, before the log entry.
    func connect(
        mayGoOn: () throws(RabbitMQError) -> Void, prepare: (RabbitMQConnection) throws(RabbitMQError) -> Void, opened: () -> Void
    ) throws(RabbitMQError) {
        var configuration = settings.configuration
        configuration.connectionName += " \(settings.name)"
        let connection = try RabbitMQConnection.open(configuration)
        try connection.leavingNodeOnFailure { () throws(RabbitMQError) in
            // Every call of these has a deadline of its own: the watchdog is for the calls after them.
            try settings.topology.establish(on: connection, beforeEach: mayGoOn)
            try prepare(connection)
        }
        self.connection = connection
        liveness.connected(connection.breaker)
        connected.record(1)
        opened()
        var metadata: Logger.Metadata = [LogKey.client: "\(settings.name)", LogKey.broker: "\(connection.peer)"]
        if let outage = delay.connected() {
            metadata[LogKey.failures] = "\(outage.failures)"
            metadata[LogKey.outageMilliseconds] = "\(Int(outage.outage / .milliseconds(1)))"
        }
        logger.info("Connected to the broker", metadata: metadata)
    }

    /// The connection was lost and left, or could not be made. The next attempt is due after a pause.
    /// - Parameter unfinished: the log's key for the unfinished messages, and their number.
    func failed(_ error: RabbitMQError, unfinished: (key: String, count: Int)) {
        failures.increment()
        let pause = delay.next()
        retryAt = .now + pause
        logger.warning(
            "No connection to the broker",
            metadata: [
                LogKey.client: "\(settings.name)", LogKey.error: "\(error)", unfinished.key: "\(unfinished.count)",
                LogKey.retryMilliseconds: "\(Int(pause / .milliseconds(1)))", LogKey.failures: "\(delay.failures)",
            ])
    }

    /// The connection is not used any more. The next attempt is due now.
    func leave() {
        liveness.disconnected()
        connection = nil
        retryAt = .now
        connected.record(0)
    }
}
