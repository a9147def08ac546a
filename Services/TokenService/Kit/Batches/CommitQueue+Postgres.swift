package import Postgres

extension PostgresPool {
    /// How long batches follow one another on a connection that no other caller waits for, before its plans are renewed.
    private static var maximumSeries: Duration { .milliseconds(250) }

    /// Commits a batch of a ``CommitQueue`` and those that follow it on the connection's own thread, because a change of threads costs time.
    /// The series ends when another caller waits for a connection.
    /// - Parameter commit: One answer per item, in their order.
    /// - Returns: The answers of the last batch.
    package func commitSeries<Item: Sendable, Answer: Sendable>(
        _ first: [Item], onward: @escaping CommitQueue<Item, Answer>.Onward,
        commit: @escaping @Sendable ([Item], PostgresSession) -> [Result<Answer, any Error>]
    ) async -> [Result<Answer, any Error>] {
        do {
            return try await session { session in
                let end = ContinuousClock.now + Self.maximumSeries
                var answers = commit(first, session)
                while session.isConnected, !self.isContended, ContinuousClock.now < end, let following = onward(answers) {
                    answers = commit(following, session)
                }
                return answers
            }
        } catch {
            // No connection was free: nothing was begun.
            return first.map { _ in .failure(error) }
        }
    }
}
