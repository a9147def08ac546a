package import Postgres
package import PushModel
import Synchronization
package import TokenServiceKit

/// Where the waiting rows of each kind begin. See ``LowWater``.
package struct OutboxMarks: Sendable {
    package let jobs = LowWater<AppLane>()
    package let fanOuts = LowWater<AppLane>()
    let fences = LowWater<AnyApp>()
    /// Cancellations that the control stream does not have, and those with jobs to hasten.
    let unpublished = LowWater<AnyApp>()
    let unhastened = LowWater<AnyApp>()
    /// Messages that wait, by webhook, enabled or not.
    package let webhookMessages = LowWater<PushID>()

    package init() {}

    /// The rows of `low_water`.
    package enum Kind: String, CaseIterable, Sendable {
        case jobs, fences, unpublished, unhastened
        case fanOuts = "fan_outs"
        case webhookMessages = "webhook_messages"
    }

    private func marks(of kind: Kind) -> any RecordedMarks {
        switch kind {
        case .jobs: jobs
        case .fanOuts: fanOuts
        case .fences: fences
        case .unpublished: unpublished
        case .unhastened: unhastened
        case .webhookMessages: webhookMessages
        }
    }

    /// They grow with the clock; a process that starts while a snapshot is open begins there.
    package var records: [Kind: LowWaterRecord] {
        Dictionary(uniqueKeysWithValues: Kind.allCases.map { ($0, marks(of: $0).record) })
    }

    /// - Parameter records: What other processes have recorded. This one knows nothing itself.
    package func start(at records: [Kind: LowWaterRecord]) {
        for (kind, record) in records { marks(of: kind).start(at: record) }
    }

    /// - Parameter records: The records that are lower than this process has recorded.
    package func lower(to records: [Kind: LowWaterRecord]) {
        for (kind, record) in records { marks(of: kind).lower(to: record.at) }
    }
}

/// Tells other processes once a minute where waiting rows begin, and learns it from them.
package final class MarkExchange: Sendable {
    private static let interval = Duration.seconds(60)

    package let marks: OutboxMarks
    private let last = Mutex<(at: ContinuousClock.Instant, recorded: [OutboxMarks.Kind: LowWaterRecord])?>(nil)

    package init(_ marks: OutboxMarks) { self.marks = marks }

    /// A process that starts while a snapshot is open begins where the others are. A mark that is lower than this process recorded is
    /// another one's, or an administrator's who has made old rows wait again: one search begins there.
    package func exchange(in pool: PostgresPool) async throws {
        let last = last.withLock { $0 }
        if let last, last.at + Self.interval > .now { return }
        let marks = marks
        let recorded = try await pool.transaction { session in
            let store = WaitingWorkStore(session: session)
            let known = try store.lowWater()
            // The first time, this process knows nothing itself.
            guard let last else {
                marks.start(at: known)
                return known
            }
            marks.lower(to: known.filter { mark in last.recorded[mark.key].map { mark.value.at < $0.at } ?? false })
            let records = marks.records
            try store.record(lowWater: records)
            return records
        }
        self.last.withLock { $0 = (.now, recorded) }
    }
}
