import Synchronization

/// A caller that waits until a condition holds.
struct Waiter {
    enum Condition: Sendable {
        /// The inbox of this token holds this many entries.
        case inbox(TokenKey, count: Int)
        /// This many requests have been recorded since the start.
        case requests(total: Int64)
        /// This many pushes were accepted for this token's device, shown or not.
        case accepted(TokenKey, count: Int64)
        /// The Live Activities of this token's device have changed this often.
        case activityChanges(TokenKey, count: Int64)
        /// This many arrivals have been recorded since the start.
        case arrivals(total: Int64)
    }

    let number: UInt64
    let condition: Condition
    /// True: the condition holds. False: the wait was given up.
    let continuation: CheckedContinuation<Bool, Never>
}

extension World.State {
    func satisfies(_ condition: Waiter.Condition, now: Int64) -> Bool {
        switch condition {
        case .inbox(let token, let count): records[token]?.installation.map { $0.inbox.count(now: now) >= count } ?? (count <= 0)
        case .requests(let total): journal.nextSequence > total
        case .accepted(let token, let count): records[token]?.installation.map { $0.accepted >= count } ?? (count <= 0)
        case .activityChanges(let token, let count):
            records[token]?.installation.map { $0.activities.changes >= count } ?? (count <= 0)
        case .arrivals(let total): arrivals.nextSequence > total
        }
    }

    mutating func takeSatisfiedWaiters(now: Int64) -> [Waiter] {
        let satisfied = waiters.filter { satisfies($0.condition, now: now) }
        if !satisfied.isEmpty { waiters.removeAll { waiter in satisfied.contains { $0.number == waiter.number } } }
        return satisfied
    }
}

extension World {
    /// Suspends until the condition holds, the task is cancelled, or `timeout` has passed.
    /// - Returns: Whether the condition held.
    func wait(for condition: Waiter.Condition, timeout: Duration) async -> Bool {
        await withTaskGroup(of: Bool.self) { group in
            group.addTask { await self.arrival(of: condition) }
            group.addTask {
                // Ends early only when the other task has won.
                do { try await Task.sleep(for: timeout) } catch { return false }
                return false
            }
            let first = await group.next() ?? false
            group.cancelAll()
            return first
        }
    }

    private func arrival(of condition: Waiter.Condition) async -> Bool {
        let number = state.withLock { state in
            state.lastWaiter += 1
            return state.lastWaiter
        }
        return await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                // Under the lock: either the cancellation below finds the waiter, or the flag is seen here.
                let answer: Bool? = state.withLock { state in
                    if state.satisfies(condition, now: clock()) { return true }
                    if Task.isCancelled || state.isOver { return false }
                    state.waiters.append(Waiter(number: number, condition: condition, continuation: continuation))
                    return nil
                }
                if let answer { continuation.resume(returning: answer) }
            }
        } onCancel: {
            giveUp { $0.number == number }
        }
    }

    /// Changes the world other than by a push, and wakes callers that waited for that.
    func change<Result>(_ body: (inout State) -> Result) -> Result {
        let (result, satisfied) = state.withLock { state in
            let result = body(&state)
            return (result, state.waiters.isEmpty ? [] : state.takeSatisfiedWaiters(now: clock()))
        }
        for waiter in satisfied { waiter.continuation.resume(returning: true) }
        return result
    }

    /// Ends every wait, also later ones: nothing more will arrive.
    func close() {
        state.withLock { $0.isOver = true }
        giveUp { _ in true }
    }

    private func giveUp(where isMeant: (Waiter) -> Bool) {
        let waiters = state.withLock { state in
            let waiters = state.waiters.filter(isMeant)
            state.waiters.removeAll(where: isMeant)
            return waiters
        }
        for waiter in waiters { waiter.continuation.resume(returning: false) }
    }
}
