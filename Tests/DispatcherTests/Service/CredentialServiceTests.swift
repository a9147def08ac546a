import APNs
import APNsSimulator
import Foundation
import FoundationNetworking
import Observability
import OpenSSL
import PushModel
import ServiceLifecycle
import SystemIO
import TestIdentity
import TestSupport
import Testing

@testable import Dispatcher

@Suite("Credentials between a real broker and Apple's protocol", .timeLimit(.minutes(5)))
struct CredentialServiceTests {
    private static let noDevice = String(repeating: "0", count: 64)

    /// A credentials file of one test that may change.
    struct Files {
        let folder: String
        var path: String { "\(folder)/credentials.json" }

        init() throws { folder = try TestIdentity.configured.get().makeFolder() }

        func write(_ text: String, to name: String) throws {
            try Data(text.utf8).write(to: URL(filePath: "\(folder)/\(name)"), options: .atomic)
        }

        func writeCredentials(keyID: String = TestIdentity.keyID, key: ES256PrivateKey, probe: String? = nil) throws {
            try write(try key.pem(), to: "\(keyID).p8")
            let more = probe.map { #","probe_topic": "\#($0)""# } ?? ""
            try write(
                """
                {"v": 1, "credentials": [{"name": "shop", "team_id": "\(TestIdentity.teamID)", "key_id": "\(keyID)", "key_file": \
                "\(keyID).p8",
                  "environments": ["production", "sandbox"], "apps": ["shop"]\(more)}]}
                """, to: "credentials.json")
        }
    }

    static func job(_ deliveries: [PushJob.Delivery]) -> PushJob {
        var job = Fixture.job(deliveries)
        job.notification = .random()
        job.acceptedAt = WallClock.milliseconds()
        job.expiresAt = job.acceptedAt + 3_600_000
        return job
    }

    private func start(_ bench: ServiceBench, _ files: Files) throws -> ServiceBench.Running {
        try bench.startDispatcher {
            $0.credentialsFile = files.path
            $0.credentialsCheck = .milliseconds(20)
        }
    }

    /// Waits until the metrics page shows a line. Asks now and then, because making pages without a pause would take the processor from the
    /// dispatcher.
    static func page(of dispatcher: ServiceBench.Running, shows line: String) async {
        while !dispatcher.registry.render().contains(line) {
            do {
                try await Task.sleep(for: .milliseconds(10))
            } catch {
                Issue.record("the page never showed \(line)")
                return
            }
        }
    }

    @Test("The dispatcher proves both environments at start with a request to no device, and needs no job for it")
    func provesAtStart() async throws {
        let files = try Files()
        try files.writeCredentials(key: TestIdentity.configured.get().key, probe: "com.example.shop")
        try await withServiceBench { bench in
            try bench.simulator.script(Self.noDevice, [.reject(.badDeviceToken), .reject(.badDeviceToken)])
            let dispatcher = try start(bench, files)
            for environment in ["production", "sandbox"] {
                await Self.page(
                    of: dispatcher,
                    shows: #"push_dispatcher_apns_credential_proven{api="device",credential="shop",environment="\#(environment)"} 1"#)
            }
            try await dispatcher.stop()
            // While an answer is missing, the dispatcher proves that credential again: here every 120 ms, so a slow machine has more
            // requests, and the first two may be for one environment.
            let journal = bench.simulator.journal()
            #expect(Set(journal.map(\.environment)) == [.production, .sandbox])
            #expect(journal.allSatisfy { $0.token == Self.noDevice })
            #expect(bench.events.waiting.isEmpty, "a proof is no delivery")
        }
    }

    @Test("A key that is replaced while jobs flow costs no job, and nothing is sent twice")
    func replacesAKey() async throws {
        let files = try Files()
        let next = try ES256PrivateKey.generate()
        try files.writeCredentials(key: TestIdentity.configured.get().key)
        try await withServiceBench { bench in
            bench.simulator.add(ProviderKey(teamID: TestIdentity.teamID, keyID: "KEY0000009", publicKey: next.publicKey))
            let dispatcher = try start(bench, files)
            let (rounds, each) = (60, 20)
            for round in 0..<rounds {
                try await bench.publish(Self.job((0..<each).map { Fixture.delivery(round * each + $0) }))
                if round == rounds / 3 { try files.writeCredentials(keyID: "KEY0000009", key: next) }
                if round == rounds * 2 / 3 {
                    await Self.page(of: dispatcher, shows: #"push_dispatcher_credentials_reloads_total{result="adopted"} 1"#)
                }
            }
            let outcomes = try await bench.finalOutcomes(rounds * each)
            #expect(outcomes.values.allSatisfy { $0 == [.accepted] })
            // From here on the simulator knows only the new key, which shows that the dispatcher does not use the old pool any more.
            bench.simulator.revoke(keyID: TestIdentity.keyID)
            try await bench.publish(Self.job([Fixture.delivery(rounds * each)]))
            #expect(try await bench.finalOutcomes(1).values.first == [.accepted])
            let journal = bench.simulator.journal()
            #expect(journal.count == rounds * each + 1)
            #expect(Set(journal.map(\.apnsID)).count == journal.count)
            let sent = #"push_dispatcher_apns_requests_total{api="device",credential="shop",environment="production"} \#(journal.count)"#
            await Self.page(of: dispatcher, shows: sent)
            try await dispatcher.stop()
            #expect(try await bench.waitingJobs() == 0)
        }
    }

    @Test("A bad key pauses its pool; a good one in its place serves what comes next, without a restart")
    func mendsAKey() async throws {
        let files = try Files()
        try files.writeCredentials(key: try ES256PrivateKey.generate())
        try await withServiceBench { bench in
            let dispatcher = try start(bench, files)
            try await bench.publish(Self.job([Fixture.delivery(1)]))
            try await bench.events.first { $0.outcome == .misconfigured && !$0.isFinal }
            await Self.page(
                of: dispatcher,
                shows: #"push_dispatcher_apns_pool_state{api="device",credential="shop",environment="production",state="paused"} 1"#)
            try files.writeCredentials(key: TestIdentity.configured.get().key)
            await Self.page(
                of: dispatcher,
                shows: #"push_dispatcher_apns_pool_state{api="device",credential="shop",environment="production",state="idle"} 1"#)
            try await bench.publish(Self.job([Fixture.delivery(2)]))
            #expect(try await bench.finalOutcomes(1) == [Fixture.delivery(2).id: [.accepted]])
            try await dispatcher.stop()
        }
    }

    @Test("The metrics page answers an operator's questions, with labels from closed sets")
    func showsSignals() async throws {
        let files = try Files()
        try files.writeCredentials(key: TestIdentity.configured.get().key)
        try await withServiceBench { bench in
            try bench.simulator.script(Fixture.token(2).hex, [.reject(.badCollapseID)])
            let dispatcher = try start(bench, files)
            try await bench.publish(.fence(app: Fixture.shop, installation: .random(), epochsBelow: 2, at: WallClock.milliseconds()))
            try await bench.publish(Self.job([Fixture.delivery(1), Fixture.delivery(2)]))
            _ = try await bench.finalOutcomes(2)
            bench.simulator.goAway()
            let credential = #"credential="shop",environment="production""#
            let pool = #"api="device",\#(credential)"#
            for line in [
                #"push_dispatcher_apns_goaways_total{\#(pool),reason="Shutdown"} 1"#,
                #"push_dispatcher_apns_connections_retired_total{\#(pool),reason="goaway Shutdown"} 1"#,
                #"push_dispatcher_apns_answers_total{answer="400 BadCollapseId",\#(pool),topic="com.example.shop"} 1"#,
                #"push_dispatcher_apns_answer_duration_seconds_count{\#(pool)} 2"#,
                #"push_dispatcher_apns_pool_state{\#(pool),state="unavailable"} 0"#,
                #"push_dispatcher_apns_credential_age_seconds{\#(credential)} "#, #"push_dispatcher_apns_stream_limit{\#(pool)} "#,
                #"push_dispatcher_outcomes_total{app="shop",class="accepted",final="true",reason="none"} 1"#,
                #"push_dispatcher_outcomes_total{app="shop",class="rejected",final="true",reason="BadCollapseId"} 1"#,
                #"push_dispatcher_control_applied_total{kind="fence"} 1"#, #"push_dispatcher_queue_age_seconds_count{lane="now"} 1"#,
                "push_dispatcher_settlement_lag_seconds_count ", "push_dispatcher_credentials_current 1",
            ] { await Self.page(of: dispatcher, shows: line) }
            try await dispatcher.stop()
        }
    }

    @Test("A broken file changes nothing and is reported; readiness stays")
    func keepsServing() async throws {
        let files = try Files()
        try files.writeCredentials(key: TestIdentity.configured.get().key)
        try await withServiceBench { bench in
            let dispatcher = try start(bench, files)
            let port = try await dispatcher.operationsPort.next()
            try files.write("{", to: "credentials.json")
            await Self.page(of: dispatcher, shows: "push_dispatcher_credentials_current 0")
            try await bench.publish(Self.job([Fixture.delivery(1)]))
            #expect(try await bench.finalOutcomes(1).values.first == [.accepted])
            let ready = try await Self.readiness(port)
            #expect(ready.status == 200)
            #expect(ready.text.contains("the changed files are not used"))
            try await dispatcher.stop()
        }
    }

    @Test("After the signal the process is unready at once, deliveries in flight still get their answers, and nothing is sent twice")
    func stopsReadinessFirst() async throws {
        try await withServiceBench { bench in
            // The time that a busy machine has to see the stop begin. The dispatcher waits for these answers for longer.
            for number in 1...5 { try bench.simulator.script(Fixture.token(number).hex, [.accept.delayed(by: .seconds(15))]) }
            let dispatcher = try bench.startDispatcher {
                $0.shutdownDeadline = .seconds(100)
            } pools: {
                $0.requestTimeout = .seconds(60)
            }
            let port = try await dispatcher.operationsPort.next()
            try await bench.publish(Self.job((0...5).map { Fixture.delivery($0) }))
            await Self.page(
                of: dispatcher, shows: #"push_dispatcher_apns_open_streams{api="device",credential="shop",environment="production"} 5"#)
            #expect(try await Self.readiness(port).status == 200)
            await dispatcher.group.triggerGracefulShutdown()
            var seen = try await Self.readiness(port)
            while seen.status == 200 { seen = try await Self.readiness(port) }
            #expect(seen.text.contains("stopping"))
            #expect(bench.events.waiting.flatMap(\.deliveries).count <= 1, "the five are still in flight")
            try await dispatcher.task.value
            let outcomes = try await bench.finalOutcomes(6)
            #expect(outcomes.values.allSatisfy { $0 == [.accepted] })
            let journal = bench.simulator.journal()
            #expect(Set(journal.map(\.apnsID)).count == 6 && journal.count == 6)
            #expect(try await bench.waitingJobs() == 0)
        }
    }

    @Test("A stop ends within its deadline even if APNs never answers, and returns the remaining jobs")
    func stopsInTime() async throws {
        try await withServiceBench { bench in
            try bench.simulator.script(Fixture.token(1).hex, [.silence])
            let dispatcher = try bench.startDispatcher { $0.shutdownDeadline = .seconds(12) }
            try await bench.publish(Self.job([Fixture.delivery(0), Fixture.delivery(1)]))
            await Self.page(
                of: dispatcher, shows: #"push_dispatcher_apns_requests_total{api="device",credential="shop",environment="production"} 2"#)
            try await dispatcher.stop()
            var outcomes: [OutcomeClass] = []
            while outcomes.count < 2 { outcomes.append(try await bench.events.next().outcome) }
            #expect(
                Set(outcomes) == [.accepted, .unknown], "a delivery that may have arrived is reported as unknown and waits for its retry")
            let next = try bench.startDispatcher()
            #expect(try await bench.finalOutcomes(1) == [Fixture.delivery(1).id: [.accepted]])
            try await next.stop()
            #expect(try await bench.waitingJobs() == 0, "the job itself was settled, or the first delivery would come again")
            #expect(bench.simulator.journal().count == 3)
        }
    }

    static func readiness(_ port: Int) async throws -> (status: Int, text: String) {
        let url = try #require(URL(string: "http://127.0.0.1:\(port)/readyz"))
        let (data, response) = try await URLSession.shared.data(from: url)
        return ((response as? HTTPURLResponse)?.statusCode ?? 0, String(decoding: data, as: UTF8.self))
    }
}
