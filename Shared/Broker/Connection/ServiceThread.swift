import ServiceLifecycle
import Synchronization
import SystemIO

/// A service that is a thread: it runs once, until a graceful shutdown or a cancellation stops it.
struct ServiceThread: Sendable {
    let name: String
    /// How long it may finish its work, once a graceful shutdown has begun.
    let drainTimeout: Duration
    /// The whole life of the thread.
    let loop: @Sendable () throws -> Void
    let stop: @Sendable (_ within: Duration) -> Void
    private let hasRun = RunMark()

    init(
        name: String, drainTimeout: Duration, loop: @escaping @Sendable () throws -> Void,
        stop: @escaping @Sendable (_ within: Duration) -> Void
    ) {
        self.name = name
        self.drainTimeout = drainTimeout
        self.loop = loop
        self.stop = stop
    }

    /// - Throws: ``AlreadyRun``, the loop's error, or `SystemError` if the system starts no thread.
    func run() async throws {
        guard hasRun.set() else { throw AlreadyRun() }
        try await withTaskCancellationHandler {
            try await withGracefulShutdownHandler {
                try await withCheckedThrowingContinuation { (continuation: CheckedContinuation<Void, any Error>) in
                    do throws(SystemError) {
                        try SystemThread.start(name: name) { continuation.resume(with: Result { try loop() }) }
                    } catch {
                        continuation.resume(throwing: error)
                    }
                }
            } onGracefulShutdown: {
                stop(drainTimeout)
            }
        } onCancel: {
            stop(.zero)
        }
    }
}

private final class RunMark: Sendable {
    private let isSet = Mutex(false)

    /// - Returns: whether it was not set before.
    func set() -> Bool {
        isSet.withLock { isSet in
            defer { isSet = true }
            return !isSet
        }
    }
}

/// A service's `run()` was called twice.
struct AlreadyRun: Error, CustomStringConvertible {
    var description: String { "run() may be called once" }
}
