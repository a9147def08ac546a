import APNsSimulator
import Broker
import Foundation
import Observability
import PushModel
import TestBroker
import TestIdentity
import TestSupport
import Testing

@testable import Dispatcher

@Suite("A client certificate between a real broker and Apple's protocol", .timeLimit(.minutes(5)))
struct ClientCertificateServiceTests {
    private static let curve = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes"
    /// Marked for the sandbox alone, as Apple marks them.
    private static let sandboxMark = "1.2.840.113635.100.6.3.1=ASN1:NULL"

    /// Certificates by an authority of one test, and a credentials file that names one of them.
    private struct Certificates {
        let folder: String
        var authority: String { "\(folder)/ca.pem" }
        var credentialsFile: String { "\(folder)/credentials.json" }

        init() throws {
            folder = try TestIdentity.configured.get().makeFolder()
            for name in ["ca", "stranger"] {
                try TestIdentity.openssl("req -x509 \(curve) -days 2 -subj /CN=\(name) -keyout \(name).key -out \(name).pem", in: folder)
            }
        }

        /// - Parameter days: A negative number makes an expired certificate.
        func issue(_ name: String, days: Int = 2, by authority: String = "ca", mark: String = "") throws {
            try write("basicConstraints=CA:FALSE\n\(mark)\n", to: "\(name).ext")
            try TestIdentity.openssl(
                "req \(curve) -subj /UID=com.example.shop/CN=\(name) -keyout \(name).key -out \(name).csr", in: folder)
            try TestIdentity.openssl(
                "x509 -req -in \(name).csr -CA \(authority).pem -CAkey \(authority).key -CAcreateserial -days \(days) "
                    + "-extfile \(name).ext -out \(name).pem", in: folder)
        }

        func use(_ name: String) throws {
            try write(
                """
                {"v": 1, "credentials": [{"name": "shop", "certificate_file": "\(name).pem", "certificate_key_file": "\(name).key",
                  "environments": ["production"], "apps": ["shop"]}]}
                """, to: "credentials.json")
        }

        private func write(_ text: String, to name: String) throws {
            try Data(text.utf8).write(to: URL(filePath: "\(folder)/\(name)"), options: .atomic)
        }
    }

    private func start(_ bench: ServiceBench, _ certificates: Certificates) throws -> ServiceBench.Running {
        try bench.startDispatcher {
            $0.credentialsFile = certificates.credentialsFile
            $0.credentialsCheck = .milliseconds(20)
        }
    }

    private func state(_ state: String) -> String {
        #"push_dispatcher_apns_pool_state{api="device",credential="shop",environment="production",state="\#(state)"} 1"#
    }

    @Test("The dispatcher sends with the certificate and no provider token, and the metrics page shows its end")
    func sends() async throws {
        let certificates = try Certificates()
        try certificates.issue("good")
        try certificates.use("good")
        try await withServiceBench {
            $0.clientCAFile = certificates.authority
            // The simulator accepts no token.
            $0.keys = []
        } _: { bench in
            let dispatcher = try start(bench, certificates)
            try await bench.publish(CredentialServiceTests.job((1...20).map { Fixture.delivery($0) }))
            let outcomes = try await bench.finalOutcomes(20)
            #expect(outcomes.values.allSatisfy { $0 == [.accepted] })
            let page = dispatcher.registry.render()
            #expect(page.contains(#"push_dispatcher_apns_certificate_ends_in_seconds{credential="shop",environment="production"} 17"#))
            try await dispatcher.stop()
            #expect(bench.simulator.journal().count == 20)
            #expect(try await bench.waitingJobs() == 0)
        }
    }

    /// The fault of the certificate, and APNs' answer to it. Apple treats a revoked certificate like a stranger's, which no authority
    /// signed.
    enum Fault: String, CaseIterable {
        case expired, stranger, wrongEnvironment

        var reason: String { self == .wrongEnvironment ? "BadCertificateEnvironment" : "BadCertificate" }
    }

    @Test(
        "A refused certificate pauses its pool with a reason and keeps its jobs, and a good one in its place serves",
        arguments: Fault.allCases)
    func pauses(fault: Fault) async throws {
        let certificates = try Certificates()
        try certificates.issue("good")
        switch fault {
        case .expired: try certificates.issue("bad", days: -1)
        case .stranger: try certificates.issue("bad", by: "stranger")
        case .wrongEnvironment: try certificates.issue("bad", mark: Self.sandboxMark)
        }
        try certificates.use("bad")
        try await withServiceBench {
            $0.clientCAFile = certificates.authority
        } _: { bench in
            let dispatcher = try start(bench, certificates)
            let port = try await dispatcher.operationsPort.next()
            try await bench.publish(CredentialServiceTests.job([Fixture.delivery(1), Fixture.delivery(2)]))
            let event = try await bench.events.next()
            #expect(event.outcome == .misconfigured && !event.isFinal)
            await CredentialServiceTests.page(of: dispatcher, shows: state("paused"))
            let ready = try await CredentialServiceTests.readiness(port)
            #expect(ready.status == 200, "another app's jobs still flow")
            #expect(ready.text.contains("paused: APNs says \(fault.reason)"))
            try await kept(2, bench)
            // Renewed in place, as an operator would.
            try certificates.use("good")
            await CredentialServiceTests.page(of: dispatcher, shows: state("idle"))
            try await bench.publish(CredentialServiceTests.job([Fixture.delivery(3)]))
            #expect(try await bench.finalOutcomes(1) == [Fixture.delivery(3).id: [.accepted]])
            try await dispatcher.stop()
            #expect(bench.simulator.journal().filter { $0.reason == nil }.map(\.token) == [Fixture.token(3).hex])
            #expect(bench.deadLetters.waiting.isEmpty)
        }
    }

    /// Waits until this number of deliveries wait in the broker for their next try.
    private func kept(_ deliveries: Int, _ bench: ServiceBench) async throws {
        var waiting = 0
        while waiting == 0 {
            waiting = 0
            for queue in bench.topology.retryQueues { waiting += try await TestBroker.messageCount(queue, bench.broker) }
        }
        // The dispatcher may split a job if its deliveries got different answers.
        #expect((1...deliveries).contains(waiting))
    }
}
