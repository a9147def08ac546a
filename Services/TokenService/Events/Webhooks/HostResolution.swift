import Synchronization
package import SystemIO
package import TokenServiceApps

/// Asks the system's resolver, each time on a thread of its own: the resolver may block for half a minute, and a slow name must delay no
/// other. The number of threads is bounded, for each app and in all. A thread counts until it ends, also if its caller has given up.
package final class HostResolution: Sendable {
    /// Asks for the addresses of a host, and blocks. The port is part of each address.
    package typealias Resolver = @Sendable (_ host: String, _ port: Int) throws -> [SocketAddress]

    /// As many names are being resolved as may be.
    package struct Busy: Error {}

    /// More than messages of one app that are under way (``WebhookDispatcher/perApp``), and of all apps: only a resolver that hangs
    /// reaches them.
    package static let defaultPerApp = 40
    package static let defaultLimit = 320

    private let limit: Int
    private let perApp: Int
    private let resolve: Resolver
    private let threads = Mutex<[App.ID: Int]>([:])

    package init(limit: Int = HostResolution.defaultLimit, perApp: Int = HostResolution.defaultPerApp, resolve: @escaping Resolver) {
        self.limit = limit
        self.perApp = perApp
        self.resolve = resolve
    }

    /// Threads that have not ended.
    package var count: Int { threads.withLock { $0.values.reduce(0, +) } }

    /// - Throws: ``Busy``; `ResolveError`; `SystemError` where the system starts no thread; `CancellationError`, though the thread goes on
    ///   until the resolver answers.
    package func addresses(of host: String, port: Int, for app: App.ID) async throws -> [SocketAddress] {
        guard take(app) else { throw Busy() }
        let (answers, continuation) = AsyncStream.makeStream(of: Result<[SocketAddress], any Error>.self)
        do {
            try SystemThread.start(name: "resolve") {
                let answer = Result<[SocketAddress], any Error> { try self.resolve(host, port) }
                self.free(app)
                continuation.yield(answer)
            }
        } catch {
            free(app)
            throw error
        }
        for await answer in answers { return try answer.get() }
        throw CancellationError()
    }

    private func take(_ app: App.ID) -> Bool {
        threads.withLock { threads in
            let ofApp = threads[app] ?? 0
            guard ofApp < perApp, threads.values.reduce(0, +) < limit else { return false }
            threads[app] = ofApp + 1
            return true
        }
    }

    private func free(_ app: App.ID) {
        threads.withLock { threads in
            let left = (threads[app] ?? 1) - 1
            threads[app] = left > 0 ? left : nil
        }
    }
}
