/// A dictionary that drops old entries, in many small parts: growth and the search for old entries each touch one part. So a request that
/// waits for the lock around it never waits for all of it.
struct AgingTable<Key: Hashable & Sendable, Value: Sendable>: Sendable {
    private struct Entry {
        var value: Value
        var at: Int64
    }

    /// With three million entries a part holds three thousand, which takes some ten microseconds to scan.
    private static var partCount: Int { 1024 }

    private var parts = [[Key: Entry]](repeating: [:], count: partCount)
    /// The place where the search goes on.
    private var next = 0
    private(set) var count = 0

    subscript(key: Key) -> Value? { count == 0 ? nil : parts[Self.part(of: key)][key]?.value }

    /// - Parameters:
    ///   - moment: of the entry, in UNIX milliseconds; one older than the present one does not change its age.
    ///   - change: makes the new value of the present one.
    mutating func update(_ key: Key, at moment: Int64, _ change: (Value?) -> Value) {
        let part = Self.part(of: key)
        let known = parts[part][key]
        parts[part][key] = Entry(value: change(known?.value), at: max(moment, known?.at ?? .min))
        if known == nil { count += 1 }
    }

    /// Reads `limit` entries, or at most those of one more part, and drops the old ones; the next call goes on from there.
    mutating func forget(before moment: Int64, looking limit: Int) {
        var (looked, seen) = (0, 0)
        while looked < limit, seen < Self.partCount, count > 0 {
            let size = parts[next].count
            if size > 0, parts[next].values.contains(where: { $0.at < moment }) {
                parts[next] = parts[next].filter { $0.value.at >= moment }
                count -= size - parts[next].count
            }
            looked += size
            seen += 1
            next = (next + 1) % Self.partCount
        }
    }

    /// The hash is seeded anew in each process, so that no caller can choose ids that all fall into one part.
    private static func part(of key: Key) -> Int { Int(truncatingIfNeeded: UInt(bitPattern: key.hashValue) % UInt(partCount)) }
}
