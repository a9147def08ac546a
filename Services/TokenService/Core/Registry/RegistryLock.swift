package import Postgres
package import PushModel

/// The names that a change of the registry concerns, locked before any row is looked at.
///
/// Every change takes these advisory locks first, all at once and in ascending order, and only then row locks, also all at once and in
/// ascending order of installation, then of token. So two changes that race for the same token, installation or user wait for each
/// other, also where the rows they race for do not exist yet. A deadlock with other locks (of indexes, of foreign keys) is run again.
package struct RegistryLock {
    private var keys: Set<Int64> = []
    private let app: App.ID

    package init(app: App.ID) { self.app = app }

    package mutating func add(installation: PushID) { add("installation", installation.bytes) }
    package mutating func add(token: DeviceToken) { add("token", token.bytes) }
    package mutating func add(user: String) { add("user", user.utf8) }

    package func take(in session: PostgresSession) throws {
        try session.execute(Self.lock, [.int64Array(keys.sorted())])
    }

    /// Those of one change, in no order.
    static func keys(installation: InstallationKey, tokens: [DeviceToken], user: String?) -> [Int64] {
        var keys: [Int64] = []
        keys.reserveCapacity(2 + tokens.count)
        keys.append(key("installation", installation.app, installation.id.bytes))
        for token in tokens { keys.append(key("token", installation.app, token.bytes)) }
        if let user { keys.append(key("user", installation.app, user.utf8)) }
        return keys
    }

    /// Those of many changes, in the order in which they are taken.
    static func keys(of changes: [RegistryChange]) -> [Int64] {
        var keys: [Int64] = []
        keys.reserveCapacity(3 * changes.count)
        for change in changes { keys += change.lockKeys }
        keys.sort()
        return keys.reduce(into: []) { unique, key in
            if unique.last != key { unique.append(key) }
        }
    }

    private mutating func add(_ kind: String, _ name: some Sequence<UInt8>) { keys.insert(Self.key(kind, app, name)) }

    private static func key(_ kind: String, _ app: App.ID, _ name: some Sequence<UInt8>) -> Int64 {
        // FNV-1a: the same in every process. Two names that collide only wait for each other.
        var hash: UInt64 = 0xcbf2_9ce4_8422_2325
        func mix(_ byte: UInt8) { hash = (hash ^ UInt64(byte)) &* 0x0000_0100_0000_01b3 }
        for shift in stride(from: 0, to: 64, by: 8) { mix(UInt8(truncatingIfNeeded: app >> shift)) }
        kind.utf8.forEach(mix)
        name.forEach(mix)
        return Int64(bitPattern: hash)
    }

    static let lock: PostgresStatement =
        "SELECT count(pg_advisory_xact_lock(key)) FROM (SELECT key FROM unnest($1::bigint[]) AS key ORDER BY key) AS ordered"
}
