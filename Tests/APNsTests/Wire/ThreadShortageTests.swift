import Synchronization
import SystemIO
import TestSupport
import Testing

@testable import APNs

@Suite("A system that starts no more threads", .timeLimit(.minutes(5)))
struct ThreadShortageTests {
    /// While it lasts, threads whose names begin so get pthread_create's own EAGAIN: nobody has the stack that they ask for.
    private final class Shortage: Sendable {
        private let prefix: String
        private let isOver = Atomic(false)

        init(of prefix: String) { self.prefix = prefix }

        func end() { isOver.store(true, ordering: .releasing) }

        func start(_ name: String, _ body: @escaping @Sendable () -> Void) throws(SystemError) {
            let isRefused = name.hasPrefix(prefix) && !isOver.load(ordering: .acquiring)
            try SystemThread.start(name: name, stackBytes: isRefused ? 1 << 60 : nil, body)
        }
    }

    private func meet(shortageOf prefix: String) async throws {
        let server = try ScriptedServer()
        let shortage = Shortage(of: prefix)
        let poor = try PoolBench(port: server.port) {
            $0.patience = .milliseconds(20)
            $0.startThread = { (name, body) throws(SystemError) in try shortage.start(name, body) }
        }
        let other = try PoolBench(port: server.port)
        poor.pool.start()
        other.pool.start()
        let refusal = try await poor.events.first { if case .threadRefused = $0 { true } else { false } }
        guard case .threadRefused(let reason) = refusal else { return }
        #expect(reason.contains("pthread_create") && reason.contains("TasksMax"))
        poor.submit(.make(2))
        #expect(try await poor.next()[1]?.answers.map(\.result) == [.notSent(.notConnected), .notSent(.notConnected)])
        other.submit(.make(2))
        #expect(try await other.next()[1]?.acceptedCount == 2)
        #expect(poor.pool.snapshot().totals.threadsRefused > 0)
        #expect(other.pool.snapshot().totals.threadsRefused == 0)

        shortage.end()
        // It tried again by itself. A connection is open before newcomers may wait again.
        try await poor.events.first { $0 == .stateChanged(.ready) }
        poor.submit(.make(2, tag: 2))
        #expect(try await poor.next()[2]?.acceptedCount == 2)
        await poor.pool.shutdown(deadline: .zero)
        await other.pool.shutdown(deadline: .zero)
        server.stop()
    }

    @Test func aPoolWithoutAThreadGivesBackAndTriesAgainWhileAnotherSends() async throws { try await meet(shortageOf: "apns-pool") }

    @Test func aPoolWithoutAThreadForAConnectionDoesTheSame() async throws { try await meet(shortageOf: "apns-") }

    @Test func aPoolThatNeverGotItsThreadEndsAndLosesNothing() async throws {
        let server = try ScriptedServer()
        let shortage = Shortage(of: "apns-pool")
        let bench = try PoolBench(port: server.port) {
            $0.startThread = { (name, body) throws(SystemError) in try shortage.start(name, body) }
        }
        bench.submit(.make(1))
        bench.pool.start()
        #expect(try await bench.next()[1]?[0] == .notSent(.notConnected), "what waited before the start comes back as well")
        await bench.pool.shutdown(deadline: .seconds(60))
        #expect(bench.pool.state == .closed)
        bench.submit(.make(1, tag: 2))
        #expect(try await bench.next()[2]?[0] == .notSent(.shuttingDown))
        server.stop()
    }
}
