/// Later tasks, earliest first: a binary heap. Equal moments keep their order.
struct TimerHeap<Element> {
    typealias Instant = ContinuousClock.Instant

    private struct Entry {
        let due: Instant
        let number: UInt64
        let element: Element
    }

    private var entries: [Entry] = []
    private var lastNumber: UInt64 = 0

    var isEmpty: Bool { entries.isEmpty }
    var count: Int { entries.count }
    var earliest: Instant? { entries.first?.due }

    mutating func schedule(_ element: Element, at due: Instant) {
        lastNumber += 1
        entries.append(Entry(due: due, number: lastNumber, element: element))
        var child = entries.count - 1
        while child > 0, precedes(child, (child - 1) / 2) {
            entries.swapAt(child, (child - 1) / 2)
            child = (child - 1) / 2
        }
    }

    /// Takes the earliest element if its moment has come.
    mutating func popDue(at now: Instant) -> Element? {
        guard let first = entries.first, first.due <= now else { return nil }
        entries.swapAt(0, entries.count - 1)
        entries.removeLast()
        sink(0)
        return first.element
    }

    mutating func removeAll(where isMeant: (Element) -> Bool) {
        entries.removeAll { isMeant($0.element) }
        for parent in stride(from: entries.count / 2 - 1, through: 0, by: -1) { sink(parent) }
    }

    private mutating func sink(_ start: Int) {
        var parent = start
        while let child = smallerChild(of: parent), precedes(child, parent) {
            entries.swapAt(parent, child)
            parent = child
        }
    }

    private func smallerChild(of parent: Int) -> Int? {
        let left = 2 * parent + 1
        guard left < entries.count else { return nil }
        let right = left + 1
        return right < entries.count && precedes(right, left) ? right : left
    }

    private func precedes(_ left: Int, _ right: Int) -> Bool {
        (entries[left].due, entries[left].number) < (entries[right].due, entries[right].number)
    }
}
