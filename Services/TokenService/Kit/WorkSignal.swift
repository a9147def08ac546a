/// Wakes a loop: signals that come while it works count as one.
package final class WorkSignal: Sendable {
    private let continuation: AsyncStream<Void>.Continuation
    /// The signals for one reader.
    package let signals: AsyncStream<Void>

    package init() { (signals, continuation) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1)) }

    package func signal() { continuation.yield() }
    /// Ends ``signals``.
    package func end() { continuation.finish() }
}
