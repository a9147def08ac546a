import Synchronization

/// How many accepted notifications wait to be published. Measured in the database now and then; between measurements this process
/// adds what it accepts and subtracts what it publishes.
package final class PublishBacklog: Sendable {
    package let limit: Int
    private let size = Mutex(0)

    package init(limit: Int) { self.limit = limit }

    package var count: Int { size.withLock { $0 } }

    /// - Throws: ``BacklogFull`` at the limit.
    package func admit() throws {
        guard count < limit else { throw BacklogFull() }
    }

    package func grew(by count: Int) { size.withLock { $0 += count } }
    package func shrank(by count: Int) { size.withLock { $0 = max(0, $0 - count) } }
    package func measured(_ count: Int) { size.withLock { $0 = count } }
}

/// The broker is away and as much waits for it as was promised to.
package struct BacklogFull: Error {}
