import Logging
import Postgres
import PushModel
import ServiceLifecycle

/// Adds device receipts to the counts of their notifications: one process of the fleet at a time, once a second.
///
/// A broadcast's devices report thousands of receipts in a second. If each request wrote the notification's row, the row would get as many
/// versions, and reading it would cost more with each of them as long as a snapshot is open.
///
/// It reads receipts in the order of their numbers, as a feed of events does, and records how far it has come with the counts. So each receipt
/// counts once, whatever process dies.
package final class DeviceReceiptCounter: Service {
    /// Receipts of one step.
    private static let stride: Int64 = 50_000
    /// Between two steps.
    private static let pause = Duration.seconds(1)
    private static let leaselessPause = Duration.seconds(5)

    private let pool: PostgresPool
    private let lease = Lease("events_device_receipts_counts", seconds: 30)
    private let logger: Logger

    init(pool: PostgresPool, logger: Logger) {
        self.pool = pool
        self.logger = logger
    }

    /// The state of the process with the lease.
    struct Reader {
        var log: LogProgress
        var renewed = ContinuousClock.now
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
        guard var now = try await renewed(reader) else { return nil }
        now.log.see(try await pool.session { session in try EventStore(session: session).horizon(of: .deviceReceipts) })
        let (start, end) = (now.log.position, min(now.log.readable, now.log.position + Self.stride))
        guard end > start else { return now }
        try await pool.transaction { [lease] session in
            try lease.renew(in: session)
            try DeviceReceiptStore(session: session).add(after: start, through: end)
        }
        now.log.position = end
        now.renewed = .now
        return now
    }

    private func renewed(_ reader: Reader?) async throws -> Reader? {
        if let reader, ContinuousClock.now - reader.renewed < .seconds(lease.seconds) / 3 { return reader }
        return try await pool.transaction { [lease] session in
            guard try lease.take(in: session) else { return nil }
            guard var reader else { return Reader(log: LogProgress(position: try DeviceReceiptStore(session: session).countedPosition())) }
            reader.renewed = .now
            return reader
        }
    }
}
