import APNs
import Broker
import Logging
import ServiceLifecycle
import SystemIO

/// Runs the core's thread and the pools until graceful shutdown, and ends when everything is settled.
struct DispatchService: Service {
    let loop: CoreLoop
    let credentials: CredentialKeeper
    let logger: Logger

    func run() async throws {
        credentials.begin()
        let isSettled = try await withTaskCancellationHandler {
            try await withGracefulShutdownHandler {
                try await runLoop()
            } onGracefulShutdown: {
                loop.stop()
            }
        } onCancel: {
            loop.stop()
        }
        if isSettled {
            logger.info("Everything is settled")
        } else {
            logger.warning("The time to stop is up: the broker delivers the rest anew")
        }
    }

    private func runLoop() async throws -> Bool {
        try await withCheckedThrowingContinuation { (continuation: CheckedContinuation<Bool, any Error>) in
            do throws(SystemError) {
                try SystemThread.start(name: "dispatch") { continuation.resume(with: Result { try loop.run() }) }
            } catch {
                continuation.resume(throwing: error)
            }
        }
    }
}

/// Consumers that begin only when the control stream has been read (docs/promises.md, 3). They stop at the same time.
struct LateConsumers: Service {
    private let consumers: [Consumer]
    private let starts: AsyncStream<Void>
    private let start: AsyncStream<Void>.Continuation

    init(_ consumers: [Consumer]) {
        self.consumers = consumers
        (starts, start) = AsyncStream.makeStream()
    }

    func begin() {
        start.yield()
        start.finish()
    }

    func run() async throws {
        for await _ in starts.cancelOnGracefulShutdown() {
            try await withThrowingTaskGroup(of: Void.self) { group in
                for consumer in consumers { group.addTask { try await consumer.run() } }
                // The first error ends the others.
                for try await _ in group {}
            }
        }
    }
}
