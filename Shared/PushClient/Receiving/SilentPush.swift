/// The answer to a silent push (Apple, "Pushing background updates to your App").
public enum SilentPushResult: Sendable, Hashable {
    case newData, noData, failed
}

/// Runs the work of a silent push, and answers in time whatever the work does.
public struct SilentPushWork: Sendable {
    private let budget: Duration
    private let clock: any PushClock

    /// - Parameter budget: Apple gives 30 seconds (Apple, "application(_:didReceiveRemoteNotification:fetchCompletionHandler:)"); the
    ///   rest is for the answer itself.
    public init(budget: Duration = .seconds(25), clock: any PushClock = SystemPushClock()) {
        self.budget = budget
        self.clock = clock
    }

    /// Returns what `work` returns, ``SilentPushResult/failed`` if it throws, or ``SilentPushResult/failed`` when the budget is used up.
    /// Then it cancels the work, and does not wait for it.
    ///
    /// - Parameter finish: What the answer waits for after the work, in the same budget, such as ``PushInbox/settled()``.
    public func run(
        _ work: @escaping @Sendable () async throws -> SilentPushResult, finish: @escaping @Sendable () async -> Void = {}
    ) async -> SilentPushResult {
        let result = Guarded(SilentPushResult.failed)
        await within(budget, clock: clock, otherwise: ()) {
            let done = (try? await work()) ?? .failed
            result.withLock { $0 = done }
            await finish()
        }
        return result.withLock { $0 }
    }
}
