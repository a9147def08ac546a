/// Runs `work` on Swift's task threads, because it would keep an event loop from its other connections.
package func offItsLoop<Result, Failure: Error>(
    _ work: @concurrent () async throws(Failure) -> Result
) async throws(Failure) -> Result {
    try await withTaskExecutorPreference(globalConcurrentExecutor) { () async throws(Failure) -> Result in try await work() }
}
