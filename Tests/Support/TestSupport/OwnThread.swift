import SystemIO

/// Runs a long computation on its own thread. Tests share Swift's few threads, and it would delay tests that wait for a server.
package func onOwnThread<R: Sendable>(_ work: @escaping @Sendable () throws -> R) async throws -> R {
    try await withCheckedThrowingContinuation { continuation in
        do throws(SystemError) {
            try SystemThread.start(name: "test") { continuation.resume(with: Result { try work() }) }
        } catch {
            continuation.resume(throwing: error)
        }
    }
}
