import BenchmarkSupport
import Foundation
import StrictJSON

/// The C program that publishes with confirms and does nothing else.
struct BarePublisher {
    let program: String
    let amqp: String
    let folder: String

    struct Result {
        var rate: Double
        /// Seconds from publishing to the confirm.
        var median: Double
    }

    /// - Parameters:
    ///   - window: How many messages may wait for their confirm.
    ///   - pause: Milliseconds before each.
    func run(exchange: String, routingKey: String, body: [UInt8], messages: Int, window: Int, pause: Int = 0) throws -> Result {
        let file = "\(folder)/body"
        try Data(body).write(to: URL(filePath: file))
        let output = try Command.run(program, [amqp, exchange, routingKey, file, "\(messages)", "\(window)", "\(pause)"])
        let line = try JSONValue.parse(Array(output.utf8), maximumBytes: 1 << 20)
        guard let seconds = line["seconds"]?.numberValue, let median = line["p50_us"]?.numberValue else {
            throw BenchmarkError("the bare publisher printed: \(output)")
        }
        return Result(rate: Double(messages) / seconds, median: median / 1_000_000)
    }
}
