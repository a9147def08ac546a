import Logging
import RabbitMQ

extension Logger {
    /// - Parameter outage: what ``ReconnectDelay/reset(now:)`` says.
    func connected(_ client: String, to broker: RabbitMQConfiguration, after outage: (failures: Int, outage: Duration)?) {
        var metadata: Logger.Metadata = [LogKey.client: "\(client)", LogKey.broker: "\(broker)"]
        if let outage {
            metadata[LogKey.failures] = "\(outage.failures)"
            metadata[LogKey.outageMilliseconds] = "\(Int(outage.outage / .milliseconds(1)))"
        }
        info("Connected to the broker", metadata: metadata)
    }
}
