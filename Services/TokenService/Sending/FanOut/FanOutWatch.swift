import Synchronization

/// The progress of this process's fan-outs, and the unfinished one of the fleet that has been due for longest.
package final class FanOutWatch: Sendable {
    private struct State {
        var live = 0
        var oldestDue: Int64?
    }

    private let metrics: FanOutMetrics
    private let state = Mutex(State())

    package init(metrics: FanOutMetrics) { self.metrics = metrics }

    /// Fan-outs under way in this process.
    package var live: Int { state.withLock { $0.live } }

    /// How long the oldest unfinished fan-out of the fleet has been due, in seconds; 0 where there is none.
    package func oldestAge(now: Int64) -> Double {
        state.withLock { state in state.oldestDue.map { Double(max(0, now - $0)) / 1000 } ?? 0 }
    }

    func began() { state.withLock { $0.live += 1 } }
    func ended() { state.withLock { $0.live -= 1 } }

    /// A page is committed.
    func wrote(_ page: Audience.Page) { metrics.fannedOut(read: page.read, jobs: page.jobs.count) }

    /// - Parameter oldestDue: UNIX milliseconds.
    func measured(oldestDue: Int64?) { state.withLock { $0.oldestDue = oldestDue } }
}
