import Synchronization

/// The apps whose brakes this process has seen engaged, for the alarm. The database decides (``RejectionBrake``). This forgets an app once
/// no token was rejected for the brake's window.
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
