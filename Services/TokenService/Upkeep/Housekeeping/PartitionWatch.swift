import Synchronization

/// The figures behind the alarms. Moments are UNIX milliseconds.
package struct PartitionState: Equatable, Sendable {
    /// Rows that are inserted until then have a period; nil without any period.
    package var coveredUntil: Int64?
    /// From then on the oldest period is past its retention; nil without any period.
    package var overdueFrom: Int64?
    /// Rows that came without a period, counted to 10,000.
    package var restRows: Int

    /// Seconds.
    package func ahead(now: Int64) -> Double { Double(max(0, (coveredUntil ?? 0) - now)) / 1000 }
    /// Seconds.
    package func overdue(now: Int64) -> Double { overdueFrom.map { Double(max(0, now - $0)) / 1000 } ?? 0 }
}

/// The partitions as this process saw them last. Every process reads them, whichever does the housekeeping.
package final class PartitionWatch: Sendable {
    private let states = Mutex<[PartitionFamily: PartitionState]>([:])

    package init() {}

    /// Nil before the first look.
    package subscript(_ family: PartitionFamily) -> PartitionState? { states.withLock { $0[family] } }

    func saw(_ states: [PartitionFamily: PartitionState]) { self.states.withLock { $0 = states } }
}
