package import Broker
package import Logging
package import Observability
package import Postgres
package import TokenServiceKit
package import TokenServiceRegistry

/// All parts between a commit and the broker. Jobs, fan-outs and fences wait in their own tables.
package struct Outbox: Sendable {
    package let backlog: PublishBacklog
    package let settlements: PublishSettlements
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
    ///   - background: For the relay and the settlements.
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
        settlements = PublishSettlements(
            pool: background, lease: settings.relayLease, backlog: backlog, metrics: metrics, logger: logger,
            onSettled: { wakeUp.signal() })
        let window = RelayWindow(logger: logger, onGrowth: { wakeUp.signal() })
        waits = LaneWaits(pool: background, logger: logger)
        metrics.observe(backlog, window, waits)
        jobs = JobPublisher(
            publisher: publisher, topology: topology, lease: settings.relayLease, settlements: settlements, window: window,
            waits: waits,
            traces: traces)
        let control = ControlPublisher(stream: control, copies: publisher, topology: topology, patience: settings.fenceTimeout)
        // A second copy of a fence has no effect, so another process may soon publish those of one that died.
        fences = FencePublisher(
            control: control, marks: marks.fences, lease: settings.fenceTimeout + .seconds(4),
            onConfirmed: { [settlements] in settlements.published(fences: $0) })
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
            settlements: settlements, window: window, backlog: backlog, exchange: exchange, wakeUp: wakeUp,
            timing: Relay.Timing(interval: settings.relayInterval, lease: settings.relayLease),
            fanOutPage: settings.fanOutPage,
            watch: fanOuts, metrics: metrics, logger: logger)
    }
}
