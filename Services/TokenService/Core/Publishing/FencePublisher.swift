import Postgres
import PushModel

/// Puts committed fences on the control stream.
package struct FencePublisher: Sendable {
    private static let maximumLeftOver = 500

    private let control: ControlPublisher
    private let settlements: PublishSettlements
    private let marks: OutboxMarks

    package init(control: ControlPublisher, settlements: PublishSettlements, marks: OutboxMarks) {
        self.marks = marks
        self.control = control
        self.settlements = settlements
    }

    /// No fence that waits is older: UNIX milliseconds. See ``LowWater``.
    var oldestWaiting: Int64 { marks.fences.marks.lowest }

    /// A fence may be published twice: the second has no further effect.
    /// - Returns: `effective` if the broker has confirmed all of them, `pending` if not yet, `none` if there are none.
    package func publish(_ fences: [Fence]) async -> FenceState {
        guard !fences.isEmpty else { return .none }
        let published = await confirmed(fences)
        settlements.published(fences: published)
        return published.count == fences.count ? .effective : .pending
    }

    /// Publishes all that are left over.
    /// - Returns: how many the broker has confirmed.
    func publishLeftOver(in pool: PostgresPool) async throws -> Int {
        var count = 0
        while true {
            let from = marks.fences.marksForSearch().lowest
            let (now, left) = try await pool.session { session in
                try OutboxStore(session: session).leftOverFences(limit: Self.maximumLeftOver, from: from)
            }
            marks.fences.found(left.first.map { [.any: $0.at] } ?? [:], at: now)
            guard !left.isEmpty else { return count }
            let published = await confirmed(left)
            count += published.count
            // Recorded before the next are read, because those would be the same.
            do { try await pool.session { session in try OutboxStore(session: session).markPublished(fences: published) } } catch {
                settlements.published(fences: published)
                throw error
            }
            guard published.count == Self.maximumLeftOver else { return count }
        }
    }

    private func confirmed(_ fences: [Fence]) async -> [Int64] {
        let confirmed = await control.publish(
            fences.map { .fence(app: $0.app, installation: $0.installation, epochsBelow: $0.epochsBelow, at: $0.at) })
        return zip(fences, confirmed).filter(\.1).map(\.0.id)
    }
}
