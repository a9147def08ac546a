package import Foundation
import PushClient
import Synchronization

/// A device's time, which passes only when a test says so. Its date can jump while no time passes.
package final class TestClock: PushClock {
    private struct Sleeper {
        var id: Int
        var end: Duration
        var continuation: CheckedContinuation<Void, any Error>
    }

    private struct State {
        var time = Duration.zero
        /// How far the date is off.
        var error = TimeInterval.zero
        var sleepers: [Sleeper] = []
        var cancelled: Set<Int> = []
        var last = 0
        /// Tests that wait for a number of sleepers.
        var watchers: [(count: Int, continuation: CheckedContinuation<Void, Never>)] = []
    }

    private let state = Mutex(State())

    package init() {}

    package var now: Date {
        state.withLock { Date(timeIntervalSince1970: 1_800_000_000 + Double($0.time.components.seconds) + $0.error) }
    }

    /// How long each sleeping task still sleeps, the shortest first.
    package var remaining: [Duration] {
        state.withLock { state in state.sleepers.map { $0.end - state.time }.sorted() }
    }

    package func sleep(for duration: Duration) async throws {
        let id = state.withLock { state in
            state.last += 1
            return state.last
        }
        try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { (continuation: CheckedContinuation<Void, any Error>) in
                let ready = state.withLock { state -> [CheckedContinuation<Void, Never>] in
                    if state.cancelled.contains(id) {
                        continuation.resume(throwing: CancellationError())
                        return []
                    }
                    state.sleepers.append(Sleeper(id: id, end: state.time + duration, continuation: continuation))
                    let count = state.sleepers.count
                    defer { state.watchers.removeAll { $0.count <= count } }
                    return state.watchers.filter { $0.count <= count }.map(\.continuation)
                }
                for watcher in ready { watcher.resume() }
            }
        } onCancel: {
            let sleeper = state.withLock { state -> Sleeper? in
                state.cancelled.insert(id)
                guard let index = state.sleepers.firstIndex(where: { $0.id == id }) else { return nil }
                return state.sleepers.remove(at: index)
            }
            sleeper?.continuation.resume(throwing: CancellationError())
        }
    }

    package func advance(by duration: Duration) {
        let due = state.withLock { state -> [Sleeper] in
            state.time += duration
            defer { state.sleepers.removeAll { $0.end <= state.time } }
            return state.sleepers.filter { $0.end <= state.time }
        }
        for sleeper in due { sleeper.continuation.resume() }
    }

    /// The person or the network sets the date. A negative number sets it back.
    package func jump(seconds: TimeInterval) {
        state.withLock { $0.error += seconds }
    }

    /// Returns when so many tasks sleep.
    package func sleepers(_ count: Int) async {
        await withCheckedContinuation { continuation in
            let isThere = state.withLock { state in
                if state.sleepers.count >= count { return true }
                state.watchers.append((count, continuation))
                return false
            }
            if isThere { continuation.resume() }
        }
    }
}
