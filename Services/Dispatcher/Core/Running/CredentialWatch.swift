import ServiceLifecycle
import UnixSignals

/// Checks the credentials' files at an interval, and reports the state of the credentials, until graceful shutdown.
struct CredentialWatch: Service {
    let keeper: CredentialKeeper
    let reporter: CredentialReporter
    let interval: Duration
    private static let looksBetweenProofs = 6

    func run() async {
        await cancelWhenGracefulShutdown {
            var looks = 0
            var reporter = reporter
            repeat {
                if looks > 0 { keeper.look() }
                if looks % Self.looksBetweenProofs == Self.looksBetweenProofs - 1 { keeper.proveAgain() }
                await reporter.report()
                looks += 1
            } while await pause()
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
