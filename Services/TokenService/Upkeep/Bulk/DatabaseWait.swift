/// How long a stream waits for a database that is away: pauses that double from 50 ms to 2 s, until its time is up.
struct DatabaseWait {
    private let deadline: ContinuousClock.Instant
    private var next = Duration.milliseconds(50)

    init(patience: Duration) { deadline = .now + patience }

    /// Whether another pause would exceed the limit.
    var isOver: Bool { ContinuousClock.now + next >= deadline }

    mutating func pause() async throws {
        try await Task.sleep(for: next)
        next = min(next * 2, .seconds(2))
    }
}
