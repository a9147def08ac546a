import Postgres

extension PostgresPool {
    /// For how long batches follow one another on a connection: then it is somebody else's turn, and its plans' to be looked at.
    private static var maximumSeries: Duration { .milliseconds(250) }

    /// A batch of a ``CommitQueue`` and those that it goes on to, all on the connection's own thread: while threads change nobody works.
    /// - Parameter commit: One answer per item, in their order.
    /// - Returns: The answers of the last batch.
    func commitSeries<Item: Sendable, Answer: Sendable>(
        _ first: [Item], onward: @escaping CommitQueue<Item, Answer>.Onward,
        commit: @escaping @Sendable ([Item], PostgresSession) -> [Result<Answer, any Error>]
    ) async -> [Result<Answer, any Error>] {
        do {
            return try await session { session in
                let end = ContinuousClock.now + Self.maximumSeries
                var answers = commit(first, session)
                while session.isConnected, ContinuousClock.now < end, let following = onward(answers) {
                    answers = commit(following, session)
                }
                return answers
            }
        } catch {
            // No connection was to be had: nothing was begun.
            return first.map { _ in .failure(error) }
        }
    }
}
