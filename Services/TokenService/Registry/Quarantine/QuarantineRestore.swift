package import Postgres
package import PushModel
package import TokenServiceApps

/// Brings tokens back out of quarantine in short transactions. Each is complete in itself, so that a call may be broken off and repeated at
/// any moment.
package struct QuarantineRestore: Sendable {
    /// Tokens per transaction: few enough locks that no other transaction waits long.
    private static let maximumBatch = 200
    /// Tokens per call, so that an answer does not take long. A caller that wants more calls again.
    package static let maximumPerCall = 10_000

    private let pool: PostgresPool

    package init(pool: PostgresPool) { self.pool = pool }

    package struct Result: Equatable, Sendable {
        package var restored = 0
        package var superseded = 0
        /// Of the requested ones, those still in quarantine.
        package var remaining = 0
    }

    /// - Parameter installations: Only theirs; nil for the whole app.
    package func restore(_ installations: [PushID]?, app: App, by actor: AuditActor) async throws -> Result {
        var (result, last) = (Result(), Int64.min)
        while result.restored + result.superseded < Self.maximumPerCall {
            let batch = try await pool.registryTransaction { [last] session in
                try QuarantineStore(session: session, app: app).restore(
                    installations, after: last, limit: Self.maximumBatch, by: actor)
            }
            guard let batch else { return result }
            last = batch.last
            result.restored += batch.restored
            result.superseded += batch.takenOut - batch.restored
        }
        result.remaining = try await pool.session { session in try QuarantineStore(session: session, app: app).count(of: installations) }
        return result
    }
}
