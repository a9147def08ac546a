import OpenSSL
import Synchronization
import SystemIO
import TestSupport
import Testing

@testable import APNs

@Suite("Dialling", .timeLimit(.minutes(5)))
struct DialerTests {
    /// A name whose addresses a test decides, and how often it was asked for.
    private final class Names: Sendable {
        private let state = Mutex((addresses: [SocketAddress](), asked: 0))

        var asked: Int { state.withLock { $0.asked } }

        func set(_ addresses: [SocketAddress]) { state.withLock { $0.addresses = addresses } }

        func resolve() -> [SocketAddress] {
            state.withLock { state in
                state.asked += 1
                return state.addresses
            }
        }
    }

    private func dialer(_ names: Names) throws -> Dialer {
        Dialer(
            endpoint: APNsEndpoint(host: "localhost"),
            context: try .client(trust: .file(TestIdentity.shared.get().certificateFile), alpn: ["h2"]), showsCertificate: false,
            connectTimeout: .seconds(10), handshakeTimeout: .seconds(10), addresses: AddressDirectory(avoidance: .seconds(60)),
            clock: .system, resolve: { _, _ in names.resolve() })
    }

    private func address(_ port: Int) throws -> SocketAddress {
        try #require(try SocketAddress.resolve(host: "127.0.0.1", port: port).first)
    }

    @Test func aDialPassesOverADeadAddressAndTheNextOneDoesNotBeginWithIt() async throws {
        let server = try ScriptedServer()
        let (dead, good) = (try address(FreePorts.closed), try address(server.port))
        let names = Names()
        let dialer = try dialer(names)
        names.set([dead])
        // Nothing but a dead one: an error, and remembered.
        let refused = await #expect(throws: DialError.self) { try await onOwnThread { _ = try dialer.dial() } }
        #expect(refused?.step == "connect" && refused?.address == dead)
        names.set([dead, good])
        for _ in 0..<5 {
            let chosen = try await onOwnThread { try dialer.dial().address }
            #expect(chosen == good)
        }
        #expect(dialer.addresses.open(oneOf: [dead, good], now: .now) == good, "though five connections go there and none to the other")
        // One that is not known to be dead yet is passed over within the same dial.
        let fresh = try self.dialer(names)
        for _ in 0..<5 { #expect(try await onOwnThread { try fresh.dial().address } == good) }
        server.stop()
    }

    @Test func everyDialAsksForTheNameAnewAndGoesWhereItLeadsNow() async throws {
        let (first, second) = (try ScriptedServer(), try ScriptedServer())
        let names = Names()
        let dialer = try dialer(names)
        for (server, asked) in [(first, 1), (second, 2), (first, 3)] {
            let here = try address(server.port)
            names.set([here])
            #expect(try await onOwnThread { try dialer.dial().address } == here)
            #expect(names.asked == asked)
        }
        first.stop()
        second.stop()
    }
}
