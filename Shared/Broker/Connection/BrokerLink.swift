import Logging
import Metrics
import RabbitMQ
import Synchronization
import SystemIO

/// A thread's connection to the broker. It opens it, declares the topology, and opens it again after growing pauses; it watches, logs and
/// counts. For its thread alone.
final class BrokerLink {
    struct Settings: Sendable {
        /// The thread's name, in logs and as metric dimension.
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

    /// The time until the next attempt to connect; not above zero: it is due.
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
        var metadata: Logger.Metadata = [BrokerLogKey.client: "\(settings.name)", BrokerLogKey.broker: "\(connection.peer)"]
        if let outage = delay.connected() {
            metadata[BrokerLogKey.failures] = "\(outage.failures)"
            metadata[BrokerLogKey.outageMilliseconds] = "\(Int(outage.outage / .milliseconds(1)))"
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
                BrokerLogKey.client: "\(settings.name)", BrokerLogKey.error: "\(error)", unfinished.key: "\(unfinished.count)",
                BrokerLogKey.retryMilliseconds: "\(Int(pause / .milliseconds(1)))", BrokerLogKey.failures: "\(delay.failures)",
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

/// Lets a thread without a connection sleep until it is woken or a time has passed.
final class Rest {
    private let poller: Poller

    init(wokenBy wakeUp: WakeUp) throws(SystemError) {
        poller = try Poller(capacity: 1)
        try poller.add(wakeUp.descriptor, key: 0, interest: .read)
    }

    /// - Returns: whether it was woken.
    @discardableResult
    func take(upTo duration: Duration) throws(SystemError) -> Bool { try !poller.wait(timeout: max(.zero, duration)).isEmpty }
}

/// A thread that frees another one from a call in librabbitmq that hangs: some of its writes and reads have no deadline (docs/rabbitmq.md,
/// Calls that hang). Checks four times per limit.
final class Watchdog: Sendable {
    private let stopped: WakeUp

    init(over liveness: LoopLiveness, client: String, limit: Duration, logger: Logger) throws(SystemError) {
        let stopped = try WakeUp()
        let cuts = Counter(label: MetricName.watchdogCuts, dimensions: [(MetricName.client, client)])
        self.stopped = stopped
        try SystemThread.start(name: "\(client)-watch") {
            do throws(SystemError) {
                let rest = try Rest(wokenBy: stopped)
                while try !rest.take(upTo: limit / 4) {
                    guard liveness.cut(ifSilentFor: limit) else { continue }
                    cuts.increment()
                    logger.error("A call to the broker hung: its connection was cut", metadata: [BrokerLogKey.client: "\(client)"])
                }
            } catch {
                logger.critical("The watchdog cannot run", metadata: [BrokerLogKey.client: "\(client)", BrokerLogKey.error: "\(error)"])
            }
        }
    }

    func stop() { stopped.signal() }
}

/// When the next attempt to connect is due, and the log entries about failed ones.
///
/// The pause has full jitter: from 0.1 s up to a ceiling that doubles to 2 s, so that many clients do not return to a restarted broker in
/// step, and each is back soon. Sending waits for this pause, too, when the control stream has moved to another node. A connection that
/// was given up soon after it was made counts as a failure: each one declares dozens of objects.
struct ReconnectDelay {
    private static let shortest = Duration.milliseconds(100)
    private static let longest = Duration.seconds(2)
    private static let usefulAge = Duration.seconds(10)
    private static let firstCeiling = Duration.milliseconds(200)
    private var ceiling = firstCeiling
    private var connectedAt: ContinuousClock.Instant?
    /// The failures since the last connection.
    private(set) var failures = 0
    private var firstFailure: ContinuousClock.Instant?

    mutating func next(now: ContinuousClock.Instant = .now) -> Duration {
        if let connectedAt, connectedAt.duration(to: now) >= Self.usefulAge { ceiling = Self.firstCeiling }
        connectedAt = nil
        defer { ceiling = min(ceiling * 2, Self.longest) }
        failures += 1
        firstFailure = firstFailure ?? now
        return Self.shortest + (ceiling - Self.shortest) * Double.random(in: 0...1)
    }

    /// - Returns: the failures before, and how long there was no connection; nil when none failed.
    mutating func connected(now: ContinuousClock.Instant = .now) -> (failures: Int, outage: Duration)? {
        defer { (failures, firstFailure, connectedAt) = (0, nil, now) }
        return firstFailure.map { (failures, now - $0) }
    }
}

/// A connection's thread reports here that it still runs, and the watchdog reads it.
final class LoopLiveness: Sendable {
    private struct State {
        var last = ContinuousClock.now
        var breaker: SocketBreaker?
    }

    private let state = Mutex(State())

    func passed() { state.withLock { $0.last = .now } }

    /// From now on the watchdog may cut this connection.
    func connected(_ breaker: SocketBreaker) {
        state.withLock {
            $0.last = .now
            $0.breaker = breaker
        }
    }

    func disconnected() { state.withLock { $0.breaker = nil } }

    /// Cuts the connection if its thread has not reported for `limit`.
    /// - Returns: whether it did.
    func cut(ifSilentFor limit: Duration) -> Bool {
        let breaker = state.withLock { state -> SocketBreaker? in
            guard state.last.duration(to: .now) > limit else { return nil }
            defer { state.breaker = nil }
            return state.breaker
        }
        breaker?.shutDown()
        return breaker != nil
    }
}
