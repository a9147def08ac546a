import Logging
import Metrics
import SystemIO

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
                    logger.error("A call to the broker hung: its connection was cut", metadata: [LogKey.client: "\(client)"])
                }
            } catch {
                logger.critical("The watchdog cannot run", metadata: [LogKey.client: "\(client)", LogKey.error: "\(error)"])
            }
        }
    }

    func stop() { stopped.signal() }
}
