/// A first-in-first-out queue over one array: both ends in constant time on average, elements by position from the front.
///
/// Inlinable, because other modules use it: they would get an unspecialised generic type, where each call costs hundreds of instructions.
@usableFromInline
package struct FIFO<Element> {
    @usableFromInline var storage: [Element?] = []
    @usableFromInline var head = 0

    @inlinable package init() {}

    @inlinable package var count: Int { storage.count - head }
    @inlinable package var isEmpty: Bool { head == storage.count }

    @inlinable package mutating func append(_ element: Element) { storage.append(element) }

    @inlinable package mutating func popFirst() -> Element? {
        guard head < storage.count else { return nil }
        defer {
            storage[head] = nil
            head += 1
            if head >= 64, head * 2 >= storage.count {
                storage.removeFirst(head)
                head = 0
            }
        }
        return storage[head]
    }

    @inlinable package var first: Element? { head < storage.count ? storage[head] : nil }

    /// - Parameter position: The position from the front, 0 up to `count`.
    package internal(set) subscript(position: Int) -> Element {
        get {
            guard let element = storage[head + position] else { preconditionFailure("a live position holds an element") }
            return element
        }
        set { storage[head + position] = newValue }
    }

    /// Puts elements before the first one.
    mutating func prepend(_ elements: [Element]) {
        storage.replaceSubrange(0..<head, with: elements.map(Optional.some))
        head = 0
    }

    mutating func removeAll() {
        storage.removeAll(keepingCapacity: true)
        head = 0
    }
}
