package import Broker
package import Configuration
package import Logging
package import Observability
package import Postgres
package import TokenServiceKit
package import TokenServiceRegistry

/// All parts between a commit and the broker. Jobs, fan-outs and fences wait in their own tables.
package struct PublishingParts: Sendable {
    package let backlog: PublishBacklog
    package let confirms: ConfirmWriter
    package let jobs: JobPublisher
    package let fences: FencePublisher
    package let cancellation: Cancellation
    package let holds: HoldService
    package let relay: Relay
    package let waits: LaneWaits
    package let marks: OutboxMarks
    package let exchange: MarkExchange
    /// Wakes the relay.
    package let wakeUp: WorkSignal

    /// - Parameters:
    ///   - pool: For the requests that cancel, hold and lift.
    ///   - background: For the relay and the writer of confirms.
    package init(
        _ settings: PublishingSettings, pool: PostgresPool, background: PostgresPool, publisher: Publisher, control: Publisher,
        topology: Topology, metrics: PublishingMetrics, holdMetrics: HoldMetrics, fanOutMetrics: FanOutMetrics, traces: Traces,
        logger: Logger
    ) {
        let wakeUp = WorkSignal()
        self.wakeUp = wakeUp
        let marks = OutboxMarks()
        self.marks = marks
        exchange = MarkExchange(marks)
        backlog = PublishBacklog(limit: settings.backlogLimit)
        confirms = ConfirmWriter(
            pool: background, lease: settings.relayLease, backlog: backlog, metrics: metrics, logger: logger,
            onRecorded: { wakeUp.signal() })
        let window = RelayWindow(logger: logger, onGrowth: { wakeUp.signal() })
        waits = LaneWaits(pool: background, logger: logger)
        metrics.observe(backlog, window, waits)
        jobs = JobPublisher(
            publisher: publisher, topology: topology, lease: settings.relayLease, confirms: confirms, window: window,
            waits: waits,
            traces: traces)
        let control = ControlPublisher(stream: control, copies: publisher, topology: topology, patience: settings.fenceTimeout)
        // A second copy of a fence has no effect, so another process may soon publish those of one that died.
        fences = FencePublisher(
            control: control, marks: marks.fences, lease: settings.fenceTimeout + .seconds(4),
            onConfirmed: { [confirms] in confirms.published(fences: $0) })
        cancellation = Cancellation(pool: pool, control: control, relay: wakeUp, marks: marks)
        let fanOuts = FanOutWatch(metrics: fanOutMetrics)
        fanOutMetrics.observe(fanOuts)
        holds = HoldService(pool: pool, control: control, relay: wakeUp, metrics: holdMetrics, logger: logger)
        holdMetrics.observe(holds.cache)
        relay = Relay(
            pool: background, publisher: publisher, jobs: jobs, fences: fences,
            cancellation: Cancellation(pool: background, control: control, relay: wakeUp, marks: marks),
            holds: HoldService(
                pool: background, control: control, relay: wakeUp, metrics: holdMetrics, logger: logger, cache: holds.cache),
            confirms: confirms, window: window, backlog: backlog, exchange: exchange, wakeUp: wakeUp,
            timing: Relay.Timing(interval: settings.relayInterval, lease: settings.relayLease),
            fanOutPage: settings.fanOutPage,
            watch: fanOuts, metrics: metrics, logger: logger)
    }
}

/// How work gets from the database to the broker.
package struct PublishingSettings: Sendable {
    package var backlogLimit: Int
    package var fenceTimeout: Duration
    package var relayInterval: Duration
    package var relayLease: Duration
    package var fanOutPage: Int

    package init(_ config: ConfigReader) throws {
        backlogLimit = try config.read(Self.backlogLimit)
        fenceTimeout = try config.read(Self.fenceTimeout)
        relayInterval = try config.read(Self.relayInterval)
        relayLease = try config.read(Self.relayLease)
        fanOutPage = try config.read(Self.fanOutPage)
    }

    package static let all: [any DocumentedSetting] = [backlogLimit, fenceTimeout, relayInterval, relayLease, fanOutPage]

    private static let backlogLimit = Setting(
        "backlog.limit", 100_000, in: 1...10_000_000,
        "accepted notifications of an app that may wait in a lane for the broker; the next one gets 503")
    private static let fenceTimeout = Setting.milliseconds(
        "fence.timeout.ms", 1000, in: 1...10_000, "how long a logout waits for the broker's confirm")
    private static let relayInterval = Setting.milliseconds(
        "relay.interval.ms", 1000, in: 10...60_000, "how often the relay looks for left-over work")
    private static let relayLease = Setting.seconds(
        "relay.lease.seconds", 30, in: 1...3600, "how long a process has a notification for itself")
    private static let fanOutPage = Setting(
        "fan.out.page.installations", FanOutStore.installationsOfPage, in: 100...100_000,
        "installations that a fan-out looks at before it moves its checkpoint: bounds memory, and what is published twice after a kill")
}
