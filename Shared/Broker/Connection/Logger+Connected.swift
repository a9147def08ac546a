import Logging

extension Logger {
    /// - Parameters:
    ///   - broker: The node that was reached.
    ///   - outage: What ``ReconnectDelay/reset(now:)`` says.
    func connected(_ client: String, to broker: String, after outage: (failures: Int, outage: Duration)?) {
        var metadata: Logger.Metadata = [LogKey.client: "\(client)", LogKey.broker: "\(broker)"]
        if let outage {
            metadata[LogKey.failures] = "\(outage.failures)"
            metadata[LogKey.outageMilliseconds] = "\(Int(outage.outage / .milliseconds(1)))"
        }
        info("Connected to the broker", metadata: metadata)
    }
}
