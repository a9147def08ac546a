package import RabbitMQ
import Synchronization
import SystemIO

/// Looks through a queue from its head without taking anything away, and takes away what the caller then names.
///
/// What is read stays unacknowledged on a connection of its own: whatever ends that connection (the end, an error, `kill -9`) puts it back
/// where it was, in its order. One reader at a time: a second one would see only what the first left, so it is refused.
package struct QueueReading: Sendable {
    /// What one look gave.
    package struct Sight: Sendable {
        /// Those that the caller wanted to keep, in the queue's order.
        package var messages: [ReceivedMessage] = []
        /// All that were looked at.
        package var seen = 0
        /// The queue's end was reached.
        package var isComplete = false
    }

    private let configuration: RabbitMQConfiguration
    private let queue: String
    private let limit: Int

    /// - Parameter limit: how many messages to look at, at most; the broker keeps track of each. 1 to 65535.
    package init(queue: String, configuration: RabbitMQConfiguration, limit: Int) {
        self.queue = queue
        self.limit = min(max(1, limit), Int(UInt16.max))
        var configuration = configuration
        configuration.connectionName += " reader"
        self.configuration = configuration
    }

    /// - Parameters:
    ///   - isWanted: called on the reader's thread for each message; what it does not want is not kept in memory.
    ///   - body: works with what is wanted, while the queue waits; returns what is to be taken away for good.
    /// - Throws: ``QueueIsBeingRead``, `RabbitMQError`, or what `body` throws; then nothing is taken away.
    package func read<Result: Sendable>(
        wanting isWanted: @escaping @Sendable (ReceivedMessage) -> Bool,
        _ body: (Sight) async throws -> (result: Result, taken: [Receipt])
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

/// Somebody else reads the queue, or consumes from it.
package struct QueueIsBeingRead: Error, CustomStringConvertible {
    package var description: String { "somebody else is reading the queue" }
}
