/// Returns the work's result, or `otherwise` when the budget is used up first. It never waits for work that ignores its cancellation.
func within<Result: Sendable>(
    _ budget: Duration, clock: any PushClock, otherwise: Result, _ work: @escaping @Sendable () async -> Result
) async -> Result {
    await withCheckedContinuation { continuation in
        let race = Guarded((continuation: Optional(continuation), tasks: [Task<Void, Never>]()))
        let finish: @Sendable (Result) -> Void = { result in
            let (waiting, tasks) = race.withLock { race in
                defer { race = (nil, []) }
                return (race.continuation, race.tasks)
            }
            waiting?.resume(returning: result)
            for task in tasks { task.cancel() }
        }
        let worker = Task { finish(await work()) }
        let timer = Task {
            guard (try? await clock.sleep(for: budget)) != nil else { return }
            finish(otherwise)
        }
        let isOver = race.withLock { race in
            guard race.continuation != nil else { return true }
            race.tasks = [worker, timer]
            return false
        }
        if isOver { for task in [worker, timer] { task.cancel() } }
    }
}
