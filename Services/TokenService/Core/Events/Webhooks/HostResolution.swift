import SystemIO

/// Asks the system's resolver on a thread of its own: the resolver may block for half a minute, and a slow name must delay no other. The
/// caller bounds the number of threads.
enum HostResolution {
    /// - Throws: `ResolveError`; `SystemError` where the system starts no thread; `CancellationError`, though the thread goes on until the
    ///   resolver answers.
    static func addresses(of host: String, port: Int) async throws -> [SocketAddress] {
        let (answers, continuation) = AsyncStream.makeStream(of: Result<[SocketAddress], any Error>.self)
        try SystemThread.start(name: "resolve") {
            continuation.yield(Result { try SocketAddress.resolve(host: host, port: port) })
        }
        for await answer in answers { return try answer.get() }
        throw CancellationError()
    }
}
