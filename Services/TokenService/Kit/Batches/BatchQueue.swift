import Synchronization

/// Many threads and tasks put elements in; one task takes them all out at once. However many are put in, one signal wakes the task.
package final class BatchQueue<Element: Sendable>: Sendable {
    private let elements = Mutex<[Element]>([])
    private let signal: AsyncStream<Void>.Continuation
    /// Yields when there may be something to take; ends after ``close()``. For one task.
    package let wakeUps: AsyncStream<Void>

    package init() {
        (wakeUps, signal) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
    }

    package func put(_ element: Element) { put(contentsOf: CollectionOfOne(element)) }

    package func put(contentsOf newcomers: some Collection<Element>) {
        guard !newcomers.isEmpty else { return }
        elements.withLock { $0.append(contentsOf: newcomers) }
        signal.yield()
    }

    package func takeAll() -> [Element] {
        elements.withLock { elements in
            defer { elements = [] }
            return elements
        }
    }

    /// Wakes the taker a last time. Elements that come later stay until a task takes them.
    package func close() { signal.finish() }
}
