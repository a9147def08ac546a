import Synchronization
import SystemIO

/// Asks the system's resolver, which may block for half a minute, on a thread of its own: one slow name holds up nobody else. How many
/// there are at once is bounded by who asks.
enum HostResolution {
    /// - Throws: `ResolveError`; `SystemError` where the system starts no thread; `CancellationError`, though the thread goes on until the
    ///   resolver answers.
    static func addresses(of host: String, port: Int) async throws -> [SocketAddress] {
        let answer = Answer()
        return try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                guard answer.wait(continuation) else { return }
                do throws(SystemError) {
                    try SystemThread.start(name: "resolve") {
                        answer.give(Result { try SocketAddress.resolve(host: host, port: port) })
                    }
                } catch {
                    answer.give(.failure(error))
                }
            }
        } onCancel: {
            answer.give(.failure(CancellationError()))
        }
    }

    /// Given once; whatever comes later is dropped.
    private final class Answer: Sendable {
        private enum State {
            case idle
            case waiting(CheckedContinuation<[SocketAddress], any Error>)
            case given
        }

        private let state = Mutex(State.idle)

        /// - Returns: false where it was cancelled already.
        func wait(_ continuation: CheckedContinuation<[SocketAddress], any Error>) -> Bool {
            let waits = state.withLock { state in
                guard case .idle = state else { return false }
                state = .waiting(continuation)
                return true
            }
            if !waits { continuation.resume(throwing: CancellationError()) }
            return waits
        }

        func give(_ result: Result<[SocketAddress], any Error>) {
            let continuation = state.withLock { state -> CheckedContinuation<[SocketAddress], any Error>? in
                defer { state = .given }
                guard case .waiting(let continuation) = state else { return nil }
                return continuation
            }
            continuation?.resume(with: result)
        }
    }
}
