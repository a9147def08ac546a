import SystemIO

/// Runs what computes for long on a thread of its own: tests share Swift's few threads, and those that wait for a server would wait for it.
package func onOwnThread<R: Sendable>(_ work: @escaping @Sendable () throws -> R) async throws -> R {
    try await withCheckedThrowingContinuation { continuation in
        do throws(SystemError) {
            try SystemThread.start(name: "test") { continuation.resume(with: Result { try work() }) }
        } catch {
            continuation.resume(throwing: error)
        }
    }
}
