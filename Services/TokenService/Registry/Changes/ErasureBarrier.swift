package import Postgres
package import TokenServiceApps

/// Keeps an outcome, a replay or a device's report from leaving a receipt of a user who is being erased. Such a transaction reads a token,
/// and writes its receipt later; meanwhile an erasure could delete the token and look for receipts. So it holds an advisory lock of its
/// apps, shared, from before it reads tokens until it commits. An erasure that has deleted tokens waits for those transactions once, and
/// then removes receipts.
package enum ErasureBarrier {
    /// Holds the apps' locks in a transaction that writes receipts, before it locks a job.
    package static func hold(_ apps: Set<Int64>) -> PostgresQuery {
        """
        SELECT count(pg_advisory_xact_lock_shared(key)) FROM unnest(\(apps.map { RegistryLock.erasure(app: $0) }.sorted())::bigint[]) AS key
        """
    }

    /// Waits for those transactions, in a transaction of its own: it must hold no other lock.
    package static func wait(for app: App) -> PostgresQuery { "SELECT pg_advisory_xact_lock(\(RegistryLock.erasure(app: app.id)))" }
}
