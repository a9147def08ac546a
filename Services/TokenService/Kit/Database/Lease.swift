package import Logging
package import Postgres
import PushModel

/// The right of one process of the fleet to do a task: a row of `leases`. Its holder renews it in the transaction of each step, so that a
/// process that lost its lease cannot commit the step.
package struct Lease: Sendable {
    let name: String
    package let seconds: Int
    /// Seconds for which no process may take it, at most.
    private let longest: Int
    private let holder = PushID.random()

    /// - Parameter longestPause: The longest ``release(after:in:logger:)``.
    package init(_ name: String, seconds: Int, longestPause: Duration = .zero) {
        self.name = name
        self.seconds = seconds
        longest = max(seconds, Int(longestPause.components.seconds))
    }

    /// Takes a free lease, or renews the holder's own.
    /// - Returns: false where another process holds it, or it is not free yet.
    package func take(in session: PostgresSession) throws -> Bool {
        try session.execute(
            """
            UPDATE leases SET holder = \(holder), free_from = now() + \(seconds) * interval '1 second'
            WHERE name = \(name) AND (
                holder = \(holder) OR free_from <= now()
                -- It was written before PostgreSQL's clock was set back.
                OR free_from > now() + \(longest + 60) * interval '1 second')
            """
        ).affected == 1
    }

    /// - Throws: ``LeaseLost`` where another process has taken it.
    package func renew(in session: PostgresSession) throws {
        let renewed = try session.execute(
            "UPDATE leases SET free_from = now() + \(seconds) * interval '1 second' WHERE name = \(name) AND holder = \(holder)")
        guard renewed.affected == 1 else { throw LeaseLost() }
    }

    /// Gives the lease back, so that another process need not wait for its end. A task of its own does that, because a shutdown cancels the
    /// caller's.
    /// - Parameter delay: How long no process may take it.
    package func release(after delay: Duration = .zero, in pool: PostgresPool, logger: Logger) async {
        let seconds = delay / .seconds(1)
        do {
            try await Task {
                try await pool.session { session in
                    _ = try session.execute(
                        """
                        UPDATE leases SET holder = NULL, free_from = now() + \(seconds) * interval '1 second'
                        WHERE name = \(name) AND holder = \(holder)
                        """)
                }
            }.value
        } catch {
            logger.info("A lease was not given back and ends by itself", metadata: [LogKey.error: "\(String(describing: error))"])
        }
    }
}

/// Another process has taken the lease.
package struct LeaseLost: Error {
    package init() {}
}
