import Synchronization

/// Hands elements to one thread (or task) in batches, in order. A post wakes the reader only when the box was empty, so a busy reader
/// costs its writers no system call.
package final class Mailbox<Element: Sendable>: Sendable {
    private struct Contents {
        var elements: [Element] = []
        var isClosed = false
    }

    private let contents = Mutex(Contents())
    private let onPost: @Sendable () -> Void

    /// - Parameter onPost: called outside the lock, on the posting thread, when the box stops being empty.
    package init(onPost: @escaping @Sendable () -> Void) {
        self.onPost = onPost
    }

    package convenience init(wakeUp: WakeUp) {
        self.init(onPost: { wakeUp.signal() })
    }

    /// False once the box is closed; the element was not taken then.
    @discardableResult
    package func post(_ element: Element) -> Bool {
        add { $0.append(element) }
    }

    /// All of them or, once closed, none.
    @discardableResult
    package func post(contentsOf elements: [Element]) -> Bool {
        add { $0.append(contentsOf: elements) }
    }

    private func add(_ append: (inout [Element]) -> Void) -> Bool {
        let (accepted, wakes) = contents.withLock { contents in
            guard !contents.isClosed else { return (false, false) }
            let wasEmpty = contents.elements.isEmpty
            append(&contents.elements)
            return (true, wasEmpty && !contents.elements.isEmpty)
        }
        if wakes { onPost() }
        return accepted
    }

    /// Everything posted so far, oldest first; the box is empty afterwards.
    package func takeAll() -> [Element] {
        contents.withLock { contents in
            guard !contents.elements.isEmpty else { return [] }
            var taken: [Element] = []
            swap(&taken, &contents.elements)
            return taken
        }
    }

    /// Takes all, for a reader that keeps two arrays in use and so allocates nothing: the old content of `elements` is dropped.
    package func takeAll(into elements: inout [Element]) {
        elements.removeAll(keepingCapacity: true)
        contents.withLock { swap(&elements, &$0.elements) }
    }

    /// Refuses new elements from now on, and returns those that were not taken. The closing caller owns them.
    package func close() -> [Element] {
        contents.withLock { contents in
            contents.isClosed = true
            var left: [Element] = []
            swap(&left, &contents.elements)
            return left
        }
    }

    package var count: Int {
        contents.withLock { $0.elements.count }
    }
}
