import APNsSimulator
import PushModel
import SystemIO
import TestSupport
import Testing

@testable import Dispatcher

/// What other readings of APNs than Apple's pages mean for deliveries (docs/apns.md).
@Suite("Deliveries under each reading of APNs", .timeLimit(.minutes(5)))
struct ReadingsServiceTests {
    private static func scenario(_ more: String) throws -> Scenario { try Scenario(text: #"{"v":1,"name":"reading",\#(more)}"#) }

    private static func alert(_ delivery: PushJob.Delivery, _ title: String) -> PushJob {
        var job = CredentialServiceTests.job([delivery])
        job.payload = Array(#"{"aps":{"alert":{"title":"\#(title)"}}}"#.utf8)
        return job
    }

    @Test(
        "APNs may keep one alert for a device that is off, or several: each is accepted, and a copy of one shows once",
        arguments: [("app", ["second"]), ("topic", ["second"]), ("collapse_id", ["first", "second"])])
    func storedAlerts(reading: String, shown: [String]) async throws {
        let phone = Fixture.delivery(1)
        var second = Fixture.delivery(2)
        second.token = phone.token
        try await withServiceBench {
            // The first answer is lost with its connection, so the alert is sent again.
            $0.scenario = try? Self.scenario(
                #"""
                "readings":{"stored":"\#(reading)"},"requests":[{"connections":[1],"positions":[1],"do":[{"action":"half_frame",\#
                "close":true}]}]
                """#
            )
        } _: { [second] bench in
            try bench.simulator.install(phone.token.hex)
            try bench.simulator.setOnline(false, phone.token.hex)
            let dispatcher = try bench.startDispatcher()
            try await bench.publish(Self.alert(phone, "first"))
            #expect(try await bench.finalOutcomes(1) == [phone.id: [.accepted]])
            try await bench.publish(Self.alert(second, "second"))
            #expect(try await bench.finalOutcomes(1) == [second.id: [.accepted]])
            #expect(bench.simulator.journal().count == 3, "the lost answer, its copy and the second alert")
            try bench.simulator.setOnline(true, phone.token.hex)
            #expect(try bench.simulator.inbox(phone.token.hex).map(\.content.title) == shown)
            try await dispatcher.stop()
        }
    }

    @Test("A start that APNs accepts and that never appears is accepted, and sent once")
    func lostStart() async throws {
        let (phone, start) = (Fixture.token(1).hex, Fixture.delivery(2))
        try await withServiceBench {
            $0.scenario = try? ReadyScenario.named("lost-starts")
        } _: { bench in
            try bench.simulator.install(phone, startTokens: ["Ride": start.token.hex])
            let dispatcher = try bench.startDispatcher()
            var job = CredentialServiceTests.job([start])
            job.pushType = .liveactivity
            job.topic = "com.example.shop.push-type.liveactivity"
            job.onUnknown = .drop
            job.payload = Array(
                #"""
                {"aps":{"event":"start","timestamp":1,"alert":{"title":"Your ride"},"attributes-type":"Ride","attributes":{},\#
                "content-state":{}}}
                """#
                .utf8)
            try await bench.publish(job)
            #expect(try await bench.finalOutcomes(1) == [start.id: [.accepted]])
            #expect(bench.simulator.journal().map(\.activity) == [.startLost])
            #expect(try bench.simulator.activities(phone).isEmpty)
            try await dispatcher.stop()
            #expect(try await bench.waitingJobs() == 0)
        }
    }

    @Test("A server with a root that this machine does not know gets no request; deliveries wait, and arrive once the root is known")
    func unknownRoot() async throws {
        try await withServiceBench {
            $0.scenario = try? Self.scenario(#""connections":[{"do":[{"action":"wrong_certificate"}]}]"#)
        } _: { bench in
            let dispatcher = try bench.startDispatcher()
            let (job, delivery) = (CredentialServiceTests.job([Fixture.delivery(1)]), Fixture.delivery(1))
            try await bench.publish(job)
            await CredentialServiceTests.page(
                of: dispatcher,
                shows: #"push_dispatcher_apns_pool_state{api="device",credential="shop",environment="production",state="connecting"} 1"#)
            while bench.simulator.counters.handshakesFailed == 0 { await Task.yield() }
            #expect(bench.simulator.journal().isEmpty)
            #expect(bench.events.waiting.isEmpty, "nothing left, so there is no outcome")
            try bench.simulator.playNothing()
            #expect(try await bench.finalOutcomes(1) == [delivery.id: [.accepted]])
            try await dispatcher.stop()
        }
    }
}
