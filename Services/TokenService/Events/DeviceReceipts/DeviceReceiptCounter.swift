import Logging
import Postgres
import PushModel
import ServiceLifecycle
import Synchronization
import TokenServiceApps
import TokenServiceKit
import TokenServiceSending

/// Adds device receipts to the counts of their notifications: one process of the fleet at a time, once a second.
///
/// A broadcast's devices report thousands of receipts in a second. If each request wrote the notification's row, the row would get as many
/// versions, and reading it would cost more with each of them as long as a snapshot is open.
///
/// It reads receipts in the order of their numbers, as a feed of events does, and records how far it has come with the counts. So each
/// receipt counts once, whatever process dies.
///
/// If a notification refuses its counts, because its row is locked or damaged, the counts of the step are put aside in `counts_to_add`, in
/// the transaction that records the position. From there, each notification gets its own as soon as it takes them.
package final class DeviceReceiptCounter: Service {
    /// Receipts of one step.
    private static let stride: Int64 = 50_000
    /// The pause between two steps.
    private static let pause = Duration.seconds(1)
    private static let leaselessPause = Duration.seconds(5)
    /// The pause between two attempts to add what was put aside.
    private static let asidePause = Duration.seconds(5)

    private let pool: PostgresPool
    private let lease = Lease("events_device_receipts_counts", seconds: 30)
    private let logger: Logger
    private let waiting = Atomic<Int64>(0)

    init(pool: PostgresPool, logger: Logger) {
        self.pool = pool
        self.logger = logger
    }

    /// Receipts that this process has still to add; none while another process has the lease.
    var waitingCount: Int64 { waiting.load(ordering: .relaxed) }

    /// The state of the process with the lease.
    struct Reader {
        var log: LogProgress
        var renewed = ContinuousClock.now
        /// When what was put aside has its next turn.
        var asideAt = ContinuousClock.now
        /// Receipts that were put aside and refused again.
        var asideCount: Int64 = 0
    }

    package func run() async throws {
        await cancelWhenGracefulShutdown {
            var pause = Self.pause
            var reader: Reader?
            while await Pause.of(pause) {
                do {
                    reader = try await self.step(reader)
                    pause = reader == nil ? Self.leaselessPause : Self.pause
                } catch is CancellationError {
                    break
                } catch {
                    if !(error is LeaseLost), !Task.isCancelled { self.logger.failed("Device receipts could not be counted", error) }
                    reader = nil
                    pause = Self.leaselessPause
                }
            }
            if reader != nil { await self.lease.release(in: self.pool, logger: self.logger) }
        }
    }

    /// - Returns: nil while another process has the lease.
    func step(_ reader: Reader?) async throws -> Reader? {
        guard var now = try await renewed(reader) else {
            waiting.store(0, ordering: .relaxed)
            return nil
        }
        now.log.see(try await pool.session { session in try EventStore(session: session).horizon(of: .deviceReceipts) })
        try await addNew(&now)
        if now.asideAt <= .now { try await addAside(&now) }
        waiting.store(now.log.last - now.log.position + now.asideCount, ordering: .relaxed)
        return now
    }

    private func addNew(_ now: inout Reader) async throws {
        let (start, end) = (now.log.position, min(now.log.readable, now.log.position + Self.stride))
        guard end > start else { return }
        do {
            try await pool.transaction { [lease] session in
                try lease.renew(in: session)
                try DeviceReceiptCounts(session: session).add(after: start, through: end)
            }
        } catch {
            guard Refusal(error) != .outage, !(error is LeaseLost) else { throw error }
            try await pool.transaction { [lease] session in
                try lease.renew(in: session)
                try DeviceReceiptCounts(session: session).putAside(after: start, through: end)
            }
            now.asideAt = .now
        }
        now.log.position = end
        now.renewed = .now
    }

    private func addAside(_ now: inout Reader) async throws {
        let notifications = try await pool.session { session in try DeviceReceiptCounts(session: session).aside(limit: Int(Self.stride)) }
        let remains = await BatchSplit.write(notifications) { part in
            try await pool.transaction { [lease] session in
                try lease.renew(in: session)
                try DeviceReceiptCounts(session: session).addAside(part)
            }
            return true
        }
        if let outage = remains.outage { throw outage }
        let left = remains.refused.map(\.item) + remains.waiting
        if !left.isEmpty, let fault = remains.failure {
            var metadata: Logger.Metadata = [LogKey.count: "\(left.count)"]
            if left.count == 1 { metadata[LogKey.notification] = "\(left[0])" }
            logger.failed("Device receipts of notifications could not be added to their counts: they are tried again", fault, metadata)
        }
        now.asideCount = left.isEmpty ? 0 : try await pool.session { session in try DeviceReceiptCounts(session: session).asideCount() }
        now.asideAt = .now + Self.asidePause
    }

    private func renewed(_ reader: Reader?) async throws -> Reader? {
        if let reader, ContinuousClock.now - reader.renewed < .seconds(lease.seconds) / 3 { return reader }
        return try await pool.transaction { [lease] session in
            guard try lease.take(in: session) else { return nil }
            guard var reader else { return Reader(log: LogProgress(position: try DeviceReceiptCounts(session: session).countedPosition())) }
            reader.renewed = .now
            return reader
        }
    }
}
