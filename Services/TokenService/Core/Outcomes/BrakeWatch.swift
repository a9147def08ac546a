import Synchronization

/// Which apps' brakes this process has seen engaged, for the alarm. What decides is in the database (``RejectionBrake``); this is forgotten
/// once nothing was rejected for as long as the brake looks back.
package final class BrakeWatch: Sendable {
    private static let memory: Duration = .seconds(RejectionBrake.windowMinutes * 60)

    private let engaged = Mutex<[Int64: ContinuousClock.Instant]>([:])

    package init() {}

    package var count: Int { engaged.withLock { $0.values.count { ContinuousClock.now - $0 < Self.memory } } }

    /// - Returns: the apps whose brake was free before, as far as this process knew.
    package func note(braked: [Int64], unbraked: [Int64]) -> [Int64] {
        let now = ContinuousClock.now
        return engaged.withLock { engaged in
            engaged = engaged.filter { now - $0.value < Self.memory && !unbraked.contains($0.key) }
            let newly = braked.filter { engaged[$0] == nil }
            for app in braked { engaged[app] = now }
            return newly
        }
    }
}
