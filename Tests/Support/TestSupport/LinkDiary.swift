/// The times of the next writes of all connections, soonest first.
struct LinkDiary {
    typealias Entry = (due: ContinuousClock.Instant, key: UInt64)

    /// A binary heap: no entry is later than its two children.
    private var entries: [Entry] = []

    var next: ContinuousClock.Instant? { entries.first?.due }

    mutating func add(_ due: ContinuousClock.Instant, _ key: UInt64) {
        entries.append((due, key))
        var child = entries.count - 1
        while child > 0, case let parent = (child - 1) / 2, entries[child].due < entries[parent].due {
            entries.swapAt(child, parent)
            child = parent
        }
    }

    /// Takes the next entry out, if it is due.
    mutating func take(now: ContinuousClock.Instant) -> Entry? {
        guard let first = entries.first, first.due <= now else { return nil }
        entries.swapAt(0, entries.count - 1)
        entries.removeLast()
        var parent = 0
        while case let left = 2 * parent + 1, left < entries.count {
            let right = left + 1
            let child = right < entries.count && entries[right].due < entries[left].due ? right : left
            guard entries[child].due < entries[parent].due else { break }
            entries.swapAt(child, parent)
            parent = child
        }
        return first
    }
}
