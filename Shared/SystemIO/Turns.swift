/// Waiting elements in several queues, which take turns: one element of each, round after round. The elements of one queue keep their
/// order.
///
/// A queue exists while elements wait in it. The next element is found at once, however many elements and queues wait.
package struct Turns<Element> {
    /// A slice drops its first element without moving the others.
    private var queues: [String: ArraySlice<Element>] = [:]
    /// The keys of ``queues``, in the order of their turns.
    private var ring: ArraySlice<String> = []
    package private(set) var count = 0

    package init() {}

    package var isEmpty: Bool { count == 0 }
    /// The queues in which an element waits, in the order of their turns.
    package var queueNames: some Collection<String> { ring }
    /// The queue whose turn it is.
    package var firstQueue: String? { ring.first }
    package var first: Element? { firstQueue.flatMap { queues[$0]?.first } }

    package func count(of queue: String) -> Int { queues[queue]?.count ?? 0 }

    /// A queue that has no element yet gets its turn after all others.
    package mutating func append(_ element: Element, to queue: String) {
        if queues[queue] == nil { ring.append(queue) }
        queues[queue, default: []].append(element)
        count += 1
    }

    @discardableResult
    package mutating func popFirst() -> Element? {
        guard let queue = ring.popFirst(), let element = queues[queue]?.popFirst() else { return nil }
        count -= 1
        if count(of: queue) == 0 { queues[queue] = nil } else { ring.append(queue) }
        return element
    }

    /// Makes it the next queue's turn, if there is another one. The first one's turn comes after that.
    package mutating func passOverFirst() {
        if ring.count > 1 { ring.swapAt(ring.startIndex, ring.startIndex + 1) }
    }

    /// Removes the first element of a queue that `matches`; the turns of the others stay.
    package mutating func remove(from queue: String, where matches: (Element) -> Bool) -> Element? {
        guard let index = queues[queue]?.firstIndex(where: matches), let element = queues[queue]?.remove(at: index) else { return nil }
        count -= 1
        if count(of: queue) == 0 {
            queues[queue] = nil
            ring.removeAll { $0 == queue }
        }
        return element
    }

    /// - Returns: All elements, in no order.
    package mutating func removeAll() -> [Element] {
        defer { self = Turns() }
        return queues.values.flatMap(\.self)
    }
}

extension Turns: Sendable where Element: Sendable {}
