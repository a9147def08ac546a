import Synchronization

/// Long answers that are written while they are worked on: import, export, a user's export. They outlive their handler, and each holds a
/// chunk in memory and uses the database again and again, so they are counted separately. A second limit counts uploads, whose bodies are
/// held in memory.
final class StreamLimit: Sendable {
    private let maximum: Int
    private let reason: LoadShedding.Reason
    private let metrics: TokenServiceMetrics
    private let count = Atomic<Int>(0)

    /// - Parameter reason: The label of its refusals.
    init(_ maximum: Int, reason: LoadShedding.Reason, metrics: TokenServiceMetrics) {
        self.maximum = maximum
        self.reason = reason
        self.metrics = metrics
    }

    var streamsInProgress: Int { count.load(ordering: .relaxed) }

    /// - Throws: ``APIError`` 503 `overloaded` if there is no room.
    func enter() throws -> Place {
        guard count.add(1, ordering: .relaxed).oldValue < maximum else {
            leave()
            metrics.shed(reason)
            throw APIError.overloaded
        }
        return Place(self)
    }

    private func leave() { count.subtract(1, ordering: .relaxed) }

    /// The place of one stream or upload. It is given back when the body of the answer ends in any way, or is dropped before it began.
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
