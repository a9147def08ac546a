import APNs
import OpenSSL
import PushModel
import SystemIO
import TestSupport
import Testing

@testable import Dispatcher

@Suite("The pools of a credential", .timeLimit(.minutes(5)))
struct PoolTableTests {
    @Test("Each service has a pool of its own, made once, when it is first needed, and none after the end of the credential")
    func makesPools() async throws {
        let (made, finished) = (Signal<APNsService>(), Signal<APNsFinishedBatch>())
        let loops = try APNsEventLoops(threads: 1)
        let table = PoolTable(onFinished: { finished.send(contentsOf: $0) }) { (plan, service) throws(TLSError) in
            made.send(service)
            return try APNsPool(
                on: loops, credential: plan.credential, endpoint: APNsEndpoint(host: "127.0.0.1", port: FreePorts.closed),
                environment: plan.environment, service: service, gate: { _, _ in .held }, onFinished: { finished.send(contentsOf: $0) },
                logger: .silent)
        }
        defer { table.shutDown(deadline: .zero) }
        _ = try table.prepare(CredentialPlan(CredentialsFile(entries: try Fixture.credentials())))
        #expect(try await made.next(3) == [.device, .device, .device])
        func batch(_ request: ChannelCommand.Request = .list) -> APNsBatch {
            APNsBatch(tag: 1, id: .random(), request, bundleID: "com.example.shop", expiresAt: WallClock.milliseconds() + 60_000)
        }
        table.submit([batch()], to: 0)
        table.submit([batch()], to: 0)
        #expect(try await made.next() == .channels)
        #expect(table.views().map(\.place.service).count { $0 == .channels } == 1)
        table.retire([0, 1], deadline: .zero)
        // The waiting ones come back, and so does one that comes too late.
        _ = try await finished.next(2)
        table.submit([batch()], to: 1)
        let late = try await finished.next()
        #expect(late.answers.map(\.result) == [.notSent(.shuttingDown)])
        table.shutDown(deadline: .zero)
        table.submit([batch()], to: 2)
        #expect(try await finished.next().answers.map(\.result) == [.notSent(.shuttingDown)])
        made.send(.broadcast)
        #expect(try await made.next() == .broadcast, "no pool was made since")
    }
}
