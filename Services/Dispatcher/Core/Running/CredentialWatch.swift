import ServiceLifecycle
import UnixSignals

/// Looks at the credentials' files again and again, until graceful shutdown.
struct CredentialWatch: Service {
    let keeper: CredentialKeeper
    let interval: Duration
    private static let looksBetweenProofs = 6

    func run() async {
        await cancelWhenGracefulShutdown {
            var looks = 0
            while await pause() {
                keeper.look()
                looks += 1
                if looks % Self.looksBetweenProofs == 0 { keeper.proveAgain() }
            }
        }
    }

    /// - Returns: false at the end.
    private func pause() async -> Bool {
        do {
            try await Task.sleep(for: interval)
            return true
        } catch {
            return false
        }
    }
}

/// Reads the credentials at once whenever one of its signals comes, until graceful shutdown.
struct CredentialReload: Service {
    let keeper: CredentialKeeper
    let signals: UnixSignalsSequence

    func run() async {
        for await _ in signals.cancelOnGracefulShutdown() { keeper.reload() }
    }
}
