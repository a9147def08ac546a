import Postgres

/// Keeps an outcome from leaving a receipt of a user who is being erased. A transaction of outcomes reads a token, and writes its receipt
/// later; meanwhile an erasure could delete the token and look for receipts. So outcomes hold an advisory lock of their apps, shared, from
/// before they read tokens until they commit. An erasure that has deleted tokens waits for those transactions once, and then removes receipts.
enum ErasureBarrier {
    /// For a transaction of outcomes, before it locks a job.
    static func hold(_ apps: Set<Int64>) -> PostgresQuery {
        "SELECT count(pg_advisory_xact_lock_shared(key)) FROM unnest(\(apps.map { RegistryLock.erasure(app: $0) }.sorted())::bigint[]) AS key"
    }

    /// For a transaction of its own: it must hold no other lock.
    static func wait(for app: App) -> PostgresQuery { "SELECT pg_advisory_xact_lock(\(RegistryLock.erasure(app: app.id)))" }
}
