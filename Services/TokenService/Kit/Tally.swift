/// Counts equal elements. Most follow an equal one, so that few are looked up.
package struct Tally<Key: Hashable> {
    package private(set) var counts: [Key: Int64] = [:]

    package init(_ keys: some Sequence<Key>) { add(keys) }

    package func adding(_ keys: some Sequence<Key>) -> Tally {
        var tally = self
        tally.add(keys)
        return tally
    }

    private mutating func add(_ keys: some Sequence<Key>) {
        var last: Key?
        var run: Int64 = 0
        for key in keys {
            if key != last {
                if let last { counts[last, default: 0] += run }
                (last, run) = (key, 0)
            }
            run += 1
        }
        if let last { counts[last, default: 0] += run }
    }
}
