import HTTP2
import OpenSSL
import TestIdentity
import TestSupport
import Testing

@testable import APNs

@Suite("A client certificate instead of a key", .timeLimit(.minutes(5)))
struct CertificateCredentialTests {
    @Test("The client shows its certificate in the handshake and sends no token") func handshake() async throws {
        let identity = try TestIdentity.shared.get()
        let server = try ScriptedServer(ScriptedServer.Behaviour(clientTrust: identity.clientFile))
        let bench = try PoolBench(port: server.port, kind: .certificate(try identity.clientCertificate()))
        bench.submit(.make(20))
        let batch = try await bench.next()[1]
        #expect(batch?.acceptedCount == 20)
        let requests = server.requests.waiting
        #expect(requests.count == 20)
        #expect(requests.allSatisfy { $0.headers["authorization"] == nil && $0.headers["apns-topic"] == "com.example.shop" })
        #expect(Set(requests.map(\.apnsID)).count == 20)
        #expect(bench.pool.snapshot().connections.allSatisfy { $0.tokenMintedAt == nil })
        await bench.pool.shutdown(deadline: .zero)
        server.stop()
    }

    @Test("A certificate that the server refuses pauses the pool") func refusedCertificate() async throws {
        let identity = try TestIdentity.shared.get()
        let server = try ScriptedServer(ScriptedServer.Behaviour(clientTrust: identity.strangerFile))
        let bench = try PoolBench(port: server.port, kind: .certificate(try identity.clientCertificate()))
        bench.submit(.make(2))
        try await bench.state(.paused(reason: "certificate_refused"))
        let batch = try await bench.next()[1]
        #expect(batch?.answers.allSatisfy { $0.result == .notSent(.poolPaused) } == true)
        #expect(server.requests.waiting.isEmpty)
        await bench.pool.shutdown(deadline: .zero)
        server.stop()
    }
}
