package import RabbitMQ
import Synchronization
import SystemIO

/// Reads a queue from its head without removing anything, and then removes the messages that the caller names.
///
/// Read messages stay unacknowledged on a connection of its own: if that connection ends in any way (the end, an error, `kill -9`), the
/// broker puts them back in their order. One reader at a time: a second one would see only the rest, so it is refused.
package struct QueueReading: Sendable {
    /// The result of one reading.
    package struct Sight: Sendable {
        /// The messages that the caller wanted to keep, in the queue's order.
        package var messages: [ReceivedMessage] = []
        /// All messages that were read.
        package var seen = 0
        /// The queue's end was reached.
        package var isComplete = false
    }

    private let configuration: RabbitMQConfiguration
    private let queue: String
    private let limit: Int

    /// - Parameter limit: how many messages to read, at most; the broker keeps track of each. 1 to 65535.
    package init(queue: String, configuration: RabbitMQConfiguration, limit: Int) {
        self.queue = queue
        self.limit = min(max(1, limit), Int(UInt16.max))
        var configuration = configuration
        configuration.connectionName += " reader"
        self.configuration = configuration
    }

    /// - Parameters:
    ///   - isWanted: called on the reader's thread for each message; unwanted ones are not kept in memory.
    ///   - body: works with the wanted ones, while the queue waits; returns those to remove for good.
    /// - Throws: ``QueueIsBeingRead``, `RabbitMQError`, or the error of `body`; then no message is removed.
    package func read<Result: Sendable>(
        wanting isWanted: @escaping @Sendable (ReceivedMessage) -> Bool,
        _ body: (Sight) async throws -> (result: Result, taken: [DeliveryTag])
    ) async throws -> Result {
        let thread = try QueueReadingThread(configuration, queue: queue, limit: limit, isWanted: isWanted)
        let sight = try await thread.begin()
        do {
            let (result, taken) = try await body(sight)
            try await thread.end(taking: taken)
            return result
        } catch {
            await thread.abandon()
            throw error
        }
    }
}

/// Another reader or consumer uses the queue.
package struct QueueIsBeingRead: Error, CustomStringConvertible {
    package var description: String { "another client is reading the queue" }
}
