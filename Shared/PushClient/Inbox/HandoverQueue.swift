/// Keeps elements in order until there is a consumer, and hands each to the consumer exactly once.
///
/// Any thread may call it. The consumer runs outside the lock, one element at a time, on a thread that called ``put(_:)`` or
/// ``attach(_:)``. An element that the consumer puts back in comes after those that are there.
final class HandoverQueue<Element: Sendable>: Sendable {
    /// Returns false if it did not take the element; the mailbox then keeps the element for the next consumer.
    typealias Consumer = @Sendable (Element) -> Bool

    private struct State {
        var kept: [Element] = []
        var consumer: (id: Int, take: Consumer)?
        var attached = 0
        var isDelivering = false
        var dropped = 0
    }

    private let capacity: Int
    private let subject: @Sendable (Element) -> [String]?
    private let mayDrop: @Sendable (Element) -> Bool
    private let state = Guarded(State())

    /// - Parameters:
    ///   - capacity: How many elements it keeps. One more drops the oldest that may be dropped.
    ///   - mayDrop: Which elements go first; if none of them may, the oldest of all goes.
    ///   - subject: A kept element gives way to a later one of the same subject. Nil: it stays.
    init(
        capacity: Int, mayDrop: @escaping @Sendable (Element) -> Bool = { _ in true },
        subject: @escaping @Sendable (Element) -> [String]? = { _ in nil }
    ) {
        self.capacity = capacity
        self.subject = subject
        self.mayDrop = mayDrop
    }

    /// Elements that did not fit since the start of the process.
    var dropped: Int { state.withLock { $0.dropped } }

    func put(_ element: Element) {
        let subject = subject(element)
        state.withLock { state in
            if let subject { state.kept.removeAll { self.subject($0) == subject } }
            state.kept.append(element)
            guard state.kept.count > capacity else { return }
            state.kept.remove(at: state.kept.firstIndex(where: mayDrop) ?? 0)
            state.dropped += 1
        }
        deliver()
    }

    /// Replaces the consumer. What is kept goes to the new one before this returns, unless another thread delivers at this moment.
    func attach(_ consumer: @escaping Consumer) {
        // The earlier one, and what it alone holds, goes outside the lock.
        _ = state.withLock { state -> Consumer? in
            let earlier = state.consumer?.take
            state.attached += 1
            state.consumer = (state.attached, consumer)
            return earlier
        }
        deliver()
    }

    private func deliver() {
        while let (element, id, take) = next() {
            let isTaken = take(element)
            state.withLock { state in
                state.isDelivering = false
                guard !isTaken else { return }
                state.kept.insert(element, at: 0)
                if state.consumer?.id == id { state.consumer = nil }
            }
        }
    }

    /// One thread delivers at a time, so that the order holds. The others leave their element to it.
    private func next() -> (Element, Int, Consumer)? {
        state.withLock { state -> (Element, Int, Consumer)? in
            guard !state.isDelivering, let consumer = state.consumer, !state.kept.isEmpty else { return nil }
            state.isDelivering = true
            return (state.kept.removeFirst(), consumer.id, consumer.take)
        }
    }
}
