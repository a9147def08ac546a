import Synchronization

/// Many threads and tasks put things in; one task takes them out, all at once. A wake-up is one signal however much was put in since.
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
        elements.withLock { $0.append(contentsOf: newcomers) }
        signal.yield()
    }

    package func takeAll() -> [Element] {
        elements.withLock { elements in
            defer { elements = [] }
            return elements
        }
    }

    /// Wakes the taker a last time. What is put in later stays until somebody takes it.
    package func close() { signal.finish() }
}
