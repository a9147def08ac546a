package import Postgres
package import PushModel
package import TokenServiceApps

/// The names in a change of the registry, locked before any row is read.
///
/// Every change takes these advisory locks first, all at once and in ascending order. Then it takes row locks, also all at once and in
/// ascending order: of installations, then of tokens. So two changes that race for the same token, installation or user wait for each
/// other, even if their rows do not exist yet. After a deadlock with other locks (of indexes, of foreign keys) the transaction runs again.
package enum RegistryLock {
    /// In the order in which they are locked.
    package static func keys(app: App.ID, installations: [PushID] = [], tokens: [DeviceToken] = [], users: [String] = []) -> [Int64] {
        unique(
            installations.map { key("installation", app, $0.bytes) } + tokens.map { key("token", app, $0.bytes) }
                + users.map { key("user", app, $0.utf8) })
    }

    /// Those of many changes, in the order in which they are locked.
    static func unique(_ keys: [Int64]) -> [Int64] {
        keys.sorted().reduce(into: []) { unique, key in
            if unique.last != key { unique.append(key) }
        }
    }

    /// The app's lock between outcomes and erasures (``ErasureBarrier``).
    static func erasure(app: App.ID) -> Int64 { key("erasure", app, [UInt8]()) }

    private static func key(_ kind: String, _ app: App.ID, _ name: some Sequence<UInt8>) -> Int64 {
        // FNV-1a: the same in every process. Two names that collide only wait for each other.
        var hash: UInt64 = 0xcbf2_9ce4_8422_2325
        func mix(_ byte: UInt8) { hash = (hash ^ UInt64(byte)) &* 0x0000_0100_0000_01b3 }
        for shift in stride(from: 0, to: 64, by: 8) { mix(UInt8(truncatingIfNeeded: app >> shift)) }
        kind.utf8.forEach(mix)
        name.forEach(mix)
        return Int64(bitPattern: hash)
    }

    /// Locks them, and reads PostgreSQL's clock (`now`) when the last lock was granted: a later change of the same name has a later moment.
    /// It is rounded up to the API's millisecond, so that a 410 that Apple stamped within that millisecond but before the registration does
    /// not retire the token.
    package static func query(_ keys: [Int64]) -> PostgresQuery {
        """
        SELECT count(pg_advisory_xact_lock(key)), date_trunc('milliseconds', clock_timestamp()) + interval '1 millisecond' AS now
        FROM (SELECT key FROM unnest(\(keys)::bigint[]) AS key ORDER BY key) AS ordered
        """
    }
}
