import Postgres
import PushModel

/// Puts committed fences on the control stream.
package struct FencePublisher: Sendable {
    static let maximumLeftOver = 500
    /// How long a new fence is its caller's to publish, before any process may: longer than a caller waits. Milliseconds.
    static let alone: Int64 = 2000

    private let control: ControlPublisher
    private let settlements: PublishSettlements
    private let marks: OutboxMarks
    private let lease: Duration

    /// - Parameter lease: How long a fence that is left over is this process's alone.
    package init(control: ControlPublisher, settlements: PublishSettlements, marks: OutboxMarks, lease: Duration) {
        self.marks = marks
        self.lease = lease
        self.control = control
        self.settlements = settlements
    }

    /// No fence that waits is older: UNIX milliseconds. See ``LowWater``.
    var oldestWaiting: Int64 { marks.fences.lowest }

    /// A fence may be published twice: the second has no further effect.
    /// - Returns: `effective` if the broker has confirmed all of them, `pending` if not yet, `none` if there are none.
    package func publish(_ fences: [Fence]) async -> FenceState {
        guard !fences.isEmpty else { return .none }
        let published = await confirmed(fences)
        settlements.published(fences: published)
        return published.count == fences.count ? .effective : .pending
    }

    /// Publishes some of those that are left over; processes share them.
    /// - Returns: how many the broker has confirmed. If that is ``maximumLeftOver``, more may be left.
    func publishLeftOver(in pool: PostgresPool) async throws -> Int {
        let leaseSeconds = lease / .seconds(1)
        let oldest = try await marks.fences.searchOldest { from in
            try await pool.session { session in try OutboxStore(session: session).oldestLeftOverFence(from: from) }
        }
        guard let oldest else { return 0 }
        let claimed = try await pool.transaction { session in
            try OutboxStore(session: session).claimFences(limit: Self.maximumLeftOver, from: oldest, leaseSeconds: leaseSeconds)
        }
        guard !claimed.isEmpty else { return 0 }
        let published = await confirmed(claimed)
        let rest = Set(claimed.map(\.id)).subtracting(published).sorted()
        do {
            try await pool.transaction { session in
                let store = OutboxStore(session: session)
                try store.markPublished(fences: published)
                try store.releaseFences(rest)
            }
        } catch {
            settlements.published(fences: published)
            throw error
        }
        return published.count
    }

    private func confirmed(_ fences: [Fence]) async -> [Int64] {
        let confirmed = await control.publish(
            fences.map { .fence(app: $0.app, installation: $0.installation, epochsBelow: $0.epochsBelow, at: $0.at) })
        return zip(fences, confirmed).filter(\.1).map(\.0.id)
    }
}
