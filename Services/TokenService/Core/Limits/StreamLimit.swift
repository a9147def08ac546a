import Synchronization

/// Long answers that are written while they are worked on: import, export, a user's export. They outlive their handler, and each holds a
/// chunk in memory and comes to the database again and again, so they are counted by themselves. Another one counts uploads, whose bodies
/// are held in memory.
final class StreamLimit: Sendable {
    private let maximum: Int
    private let reason: LoadShedding.Reason
    private let metrics: TokenServiceMetrics
    private let count = Atomic<Int>(0)

    /// - Parameter reason: What its refusals are counted as.
    init(_ maximum: Int, reason: LoadShedding.Reason, metrics: TokenServiceMetrics) {
        self.maximum = maximum
        self.reason = reason
        self.metrics = metrics
    }

    var streamsInProgress: Int { count.load(ordering: .relaxed) }

    /// - Throws: ``APIError`` 503 `overloaded` where there is no room.
    func enter() throws -> Place {
        guard count.add(1, ordering: .relaxed).oldValue < maximum else {
            leave()
            metrics.shed(reason)
            throw APIError.overloaded
        }
        return Place(self)
    }

    private func leave() { count.subtract(1, ordering: .relaxed) }

    /// One stream's or upload's. Given back when the body of the answer ends, however it does, or goes away without having been begun.
    final class Place: Sendable {
        private let limit: StreamLimit
        private let isOver = Atomic<Bool>(false)

        fileprivate init(_ limit: StreamLimit) { self.limit = limit }

        func end() {
            if !isOver.exchange(true, ordering: .relaxed) { limit.leave() }
        }

        deinit { end() }
    }
}
