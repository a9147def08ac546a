import Dispatch
import Synchronization
import SystemIO
import TestSupport
import Testing

@testable import APNs

@Suite("Making connections", .timeLimit(.minutes(5)))
struct DialTests {
    /// A host name whose addresses the test sets.
    private final class Names: Sendable {
        private let addresses = Mutex<[SocketAddress]>([])

        func set(_ addresses: [SocketAddress]) { self.addresses.withLock { $0 = addresses } }

        func bench(_ port: Int, _ change: (inout APNsPoolConfiguration) -> Void = { _ in }) throws -> PoolBench {
            try PoolBench(port: port) {
                $0.resolve = { [self] (_, _) throws(ResolveError) in addresses.withLock { $0 } }
                change(&$0)
            }
        }
    }

    private func address(_ port: Int) throws -> SocketAddress {
        try #require(try SocketAddress.resolve(host: "127.0.0.1", port: port).first)
    }

    private func failure(_ event: APNsPoolEvent) -> Bool { if case .connectionFailed = event { true } else { false } }

    @Test("One dial passes over a dead address") func aDeadAddressIsPassedOverWithinOneDial() async throws {
        let server = try ScriptedServer()
        let (dead, good) = (try address(FreePorts.closed), try address(server.port))
        let names = Names()
        names.set([dead, good])
        // Which one comes first is chance.
        for _ in 0..<8 {
            let bench = try names.bench(server.port)
            bench.submit(.make(1))
            #expect(try await bench.next()[1]?.acceptedCount == 1)
            #expect(!bench.events.waiting.contains(where: failure))
            await bench.pool.shutdown(deadline: .zero)
        }
        server.stop()
    }

    @Test("A dial without a living address is an error, and the next dial resolves the name again")
    func aDialWithoutALivingAddressIsAnErrorAndTheNextOneAsksForTheNameAnew() async throws {
        let server = try ScriptedServer()
        let dead = try address(FreePorts.closed)
        let names = Names()
        names.set([dead])
        let bench = try names.bench(server.port)
        bench.submit(.make(1))
        let event = try await bench.events.first(where: failure)
        guard case .connectionFailed(let where_, let reason) = event else { return }
        #expect(where_ == dead.description && reason.hasPrefix("connect: "))
        names.set([dead, try address(server.port)])
        #expect(try await bench.next()[1]?.acceptedCount == 1)
        await bench.pool.shutdown(deadline: .zero)
        server.stop()
    }

    /// The resolver may block for long. Only new connections wait for it.
    @Test("A resolver that hangs delays no open connection") func aResolverThatHangsDelaysNoOpenConnection() async throws {
        let server = try ScriptedServer()
        let (asked, goOn) = (Signal<Void>(), DispatchSemaphore(value: 0))
        let loops = try APNsEventLoops(threads: 1)
        let quick = try PoolBench(port: server.port, on: loops)
        quick.submit(.make(1))
        _ = try await quick.next()
        let port = server.port
        let hanging = try PoolBench(port: port, on: loops) {
            $0.resolve = { (_, _) throws(ResolveError) in
                asked.send(())
                goOn.wait()
                return try SocketAddress.resolve(host: "127.0.0.1", port: port)
            }
        }
        hanging.submit(.make(1))
        _ = try await asked.next()
        for tag in 2...20 {
            quick.submit(.make(5, tag: UInt64(tag)))
            #expect(try await quick.next()[UInt64(tag)]?.acceptedCount == 5)
        }
        goOn.signal()
        #expect(try await hanging.next()[1]?.acceptedCount == 1)
        await quick.pool.shutdown(deadline: .zero)
        await hanging.pool.shutdown(deadline: .zero)
        server.stop()
    }
}
