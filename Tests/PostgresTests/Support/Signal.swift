import Dispatch

/// An event that happens once, for the blocking bodies of transactions and for tasks.
final class Signal: Sendable {
    private let semaphore = DispatchSemaphore(value: 0)
    private let stream: AsyncStream<Void>
    private let continuation: AsyncStream<Void>.Continuation

    init() { (stream, continuation) = AsyncStream.makeStream() }

    func send() {
        semaphore.signal()
        continuation.finish()
    }

    /// Blocks the calling thread, which must not be the cooperative pool's.
    func block() {
        semaphore.wait()
        semaphore.signal()
    }

    func wait() async {
        for await _ in stream {}
    }
}
