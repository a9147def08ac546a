package import Postgres
package import PushModel
import StrictJSON
package import TokenServiceKit

/// Puts committed fences on the control stream.
package struct FencePublisher: Sendable {
    package static let maximumLeftOver = 500
    /// How long a new fence is its caller's to publish, before any process may: longer than a caller waits. Milliseconds.
    static let alone: Int64 = 2000

    private let control: ControlPublisher
    private let marks: LowWater<AnyApp>
    private let lease: Duration
    private let onConfirmed: @Sendable ([Int64]) -> Void

    /// - Parameters:
    ///   - marks: Where the fences that wait begin.
    ///   - lease: How long a fence that is left over is this process's alone.
    ///   - onConfirmed: Gets the ids of fences that the broker has confirmed, and records that they are published, soon.
    package init(
        control: ControlPublisher, marks: LowWater<AnyApp>, lease: Duration, onConfirmed: @escaping @Sendable ([Int64]) -> Void
    ) {
        self.control = control
        self.marks = marks
        self.lease = lease
        self.onConfirmed = onConfirmed
    }

    /// No fence that waits is older: UNIX milliseconds. See ``LowWater``.
    package var oldestWaiting: Int64 { marks.lowest }

    /// A fence may be published twice: the second has no further effect.
    /// - Returns: `effective` if the broker has confirmed all of them, `pending` if not yet, `none` if there are none.
    package func publish(_ fences: [Fence]) async -> FenceState {
        guard !fences.isEmpty else { return .none }
        let published = await confirmed(fences)
        onConfirmed(published)
        return published.count == fences.count ? .effective : .pending
    }

    /// Publishes some of those that are left over; processes share them.
    /// - Returns: how many the broker has confirmed. If that is ``maximumLeftOver``, more may be left.
    package func publishLeftOver(in pool: PostgresPool) async throws -> Int {
        let leaseSeconds = lease / .seconds(1)
        let oldest = try await marks.searchOldest { from in
            try await pool.session { session in try FenceStore(session: session).oldestLeftOver(from: from) }
        }
        guard let oldest else { return 0 }
        let claimed = try await pool.transaction { session in
            try FenceStore(session: session).claim(limit: Self.maximumLeftOver, from: oldest, leaseSeconds: leaseSeconds)
        }
        guard !claimed.isEmpty else { return 0 }
        let published = await confirmed(claimed)
        let rest = Set(claimed.map(\.id)).subtracting(published).sorted()
        do {
            try await pool.transaction { session in
                let store = FenceStore(session: session)
                try store.markPublished(published)
                try store.release(rest)
            }
        } catch {
            onConfirmed(published)
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

/// "Installation X: epochs below n are over", written in the transaction that ended them.
package struct Fence: Equatable, Sendable {
    package let id: Int64
    package let app: AppSlug
    package let installation: PushID
    package let epochsBelow: Int64
    /// UNIX milliseconds.
    package let at: Int64
}

/// Whether every dispatcher can know of an installation's fences.
package enum FenceState: String, Sendable {
    /// It was never fenced, as far as the database knows.
    case none
    /// The fences stand on the control stream.
    case effective
    /// The broker has not confirmed one yet; the relay goes on trying.
    case pending

    package func combined(with other: FenceState) -> FenceState {
        switch (self, other) {
        case (.pending, _), (_, .pending): .pending
        case (.effective, _), (_, .effective): .effective
        default: .none
        }
    }
}

extension ResponseSchema where Value == FenceState {
    package static var fence: ResponseSchema { ResponseSchema(schema: .fence) { $1.value($0.rawValue) } }
}

extension JSONSchema {
    static let fence = JSONSchema.words(["effective", "pending", "none"]).described(
        """
        `effective`: every dispatcher can know that the previous owner's epoch is over; `pending`: the broker has not confirmed it yet; \
        `none`: there never was one here. It speaks of this installation: for an installation that a token left, see the answer to the \
        request that moved it; its repetition does not report it.
        """
    )
}
