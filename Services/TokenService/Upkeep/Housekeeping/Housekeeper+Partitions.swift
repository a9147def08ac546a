import Logging
import Postgres
import TokenServiceKit

/// Makes partitions ahead of time and drops those whose retention is over. If that fails, the round goes on: rows without a period have a
/// partition of their own, and the gauges of ``PartitionWatch`` raise the alarm.
extension Housekeeper {
    /// Any process may do so at any time.
    func makePartitions() async {
        for family in PartitionFamily.allCases {
            await change(family, "Partitions could not be made") { [days = settings.periodDays(of: family)] store in
                try store.makeNext(family, days: days)
            } then: { made in
                logger.info("Made partitions", metadata: [LogKey.partitions: "\(made.joined(separator: " "))"])
            }
        }
        await lookAtPartitions()
        for family in PartitionFamily.allCases {
            guard let state = partitions[family], state.ahead(now: UnixTime.milliseconds()) < 86_400 / 2 else { continue }
            logger.warning("No partition lies ahead", metadata: [LogKey.table: "\(family.rawValue)"])
        }
    }

    /// - Throws: ``LeaseLost``, `CancellationError`.
    func dropPartitions() async throws {
        for family in PartitionFamily.allCases {
            try await renewLease()
            await change(family, "Partitions could not be dropped") { [days = settings.retentionDays(of: family)] store in
                try store.dropNext(family, retentionDays: days)
            } then: { dropped in
                logger.info("Dropped a partition", metadata: [LogKey.partitions: "\(dropped.joined(separator: " "))"])
            }
        }
    }

    func lookAtPartitions() async {
        do {
            let states = try await pool.session { [settings] session in
                try PartitionStore(session: session).states { settings.retentionDays(of: $0) }
            }
            partitions.saw(states)
        } catch {
            guard !(error is CancellationError) else { return }
            logger.failed("The partitions could not be looked at", error)
        }
    }

    /// Changes partitions until there is nothing left to change. Each change is a transaction that may wait for tables' locks, with pauses
    /// in which callers go on: that takes far longer than a caller's statement may.
    private func change(
        _ family: PartitionFamily, _ failure: Logger.Message, _ body: @escaping @Sendable (PartitionStore) throws -> [String],
        then: ([String]) -> Void
    ) async {
        do {
            while true {
                let changed = try await pool.transaction(deadline: .seconds(60)) { session in
                    try ClocksDiffer.check(in: session)
                    try session.execute("SELECT set_config('statement_timeout', '50s', true)")
                    return try body(PartitionStore(session: session))
                }
                guard !changed.isEmpty else { return }
                then(changed)
            }
        } catch let error as PostgresError where error.isOfSize {
            logger.info(
                "A table is in use: its partitions are changed in a later round",
                metadata: [LogKey.table: "\(family.rawValue)", LogKey.error: "\(error)"])
        } catch {
            guard !(error is CancellationError) else { return }
            logger.failed(failure, error, [LogKey.table: "\(family.rawValue)"])
        }
    }
}
