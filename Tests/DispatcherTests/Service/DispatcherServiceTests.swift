import APNsSimulator
import Broker
import Dispatcher
import Logging
import Observability
import PushModel
import RabbitMQ
import SystemIO
import TestBroker
import TestSupport
import Testing

@Suite("The dispatcher between a real broker and Apple's protocol", .timeLimit(.minutes(5)))
struct DispatcherServiceTests {
    private func job(
        _ deliveries: [PushJob.Delivery], app: AppSlug = Fixture.shop, lane: Lane = .now, notification: PushID = .random()
    ) -> PushJob {
        var job = Fixture.job(deliveries, app: app, lane: lane)
        job.notification = notification
        job.acceptedAt = WallClock.milliseconds()
        job.expiresAt = job.acceptedAt + 3_600_000
        return job
    }

    @Test("A job in each lane and environment is accepted, acknowledged, and shows on the devices")
    func accepts() async throws {
        try await withServiceBench { bench in
            let dispatcher = try bench.startDispatcher()
            try await bench.publish(
                Lane.allCases.enumerated().map { index, lane in
                    job([Fixture.delivery(index * 2 + 1), Fixture.delivery(index * 2 + 2, environment: .sandbox)], lane: lane)
                })
            let outcomes = try await bench.finalOutcomes(6)
            #expect(outcomes.values.allSatisfy { $0 == [.accepted] })
            try await dispatcher.stop()
            #expect(try await bench.waitingJobs() == 0)
            let journal = bench.simulator.journal()
            #expect(Set(journal.compactMap(\.token)) == Set((1...6).map { Fixture.token($0).hex }))
            #expect(Set(journal.filter { $0.environment == .sandbox }.compactMap(\.token)) == Set([2, 4, 6].map { Fixture.token($0).hex }))
            #expect(Set(journal.map(\.apnsID)) == Set((1...6).map { Fixture.delivery($0).id.description }))
        }
    }

    @Test("Every metric says what it is, by Prometheus' rules (promtool check metrics)")
    func explainsItsMetrics() async throws {
        try await withServiceBench { bench in
            let dispatcher = try bench.startDispatcher()
            try await bench.publish(job([Fixture.delivery(1)]))
            _ = try await bench.finalOutcomes(1)
            let page = dispatcher.registry.render()
            #expect(MetricsLint.faults(of: page) == [])
            #expect(MetricsLint.names(in: page).contains("push_dispatcher_outcomes_total"))
            try await dispatcher.stop()
        }
    }

    @Test("A 410 is reported with Apple's timestamp")
    func reportsGone() async throws {
        try await withServiceBench { bench in
            let token = Fixture.token(1).hex
            try bench.simulator.install(token)
            try bench.simulator.uninstall(token, since: 1_650_000_000_123)
            let dispatcher = try bench.startDispatcher()
            try await bench.publish(job([Fixture.delivery(1)]))
            let event = try await bench.events.next()
            #expect(event.outcome == .tokenGone)
            #expect(event.isFinal)
            #expect(event.deliveries.first?.status == 410)
            #expect(event.deliveries.first?.reason == "Unregistered")
            #expect(event.deliveries.first?.timestamp == 1_650_000_000_123)
            try await dispatcher.stop()
        }
    }

    @Test("A reason with U+0000 comes without it, and the other deliveries of the job have their own outcomes")
    func hostileReason() async throws {
        try await withServiceBench { bench in
            try bench.simulator.script(Fixture.token(2).hex, [.answer(status: 400, reason: "Bad\u{0}Token")])
            let token = Fixture.token(3).hex
            try bench.simulator.install(token)
            try bench.simulator.uninstall(token, since: 1_650_000_000_123)
            let dispatcher = try bench.startDispatcher()
            try await bench.publish(job([Fixture.delivery(1), Fixture.delivery(2), Fixture.delivery(3)]))
            var reasons: [PushID: String?] = [:]
            while reasons.count < 3 {
                let message = try await bench.outcomes.next()
                #expect(!String(decoding: message.body, as: UTF8.self).contains("u0000"))
                for delivery in try OutcomeEvent(decoding: message.body).deliveries { reasons[delivery.id] = delivery.reason }
            }
            try await dispatcher.stop()
            #expect(reasons[Fixture.delivery(1).id] == .some(nil))
            #expect(reasons[Fixture.delivery(2).id] == "Bad\u{fffd}Token")
            #expect(reasons[Fixture.delivery(3).id] == "Unregistered")
        }
    }

    @Test("A sandbox token that was registered for production is found in the sandbox, with one request to each, under one id")
    func findsTheOtherEnvironment() async throws {
        try await withServiceBench { bench in
            let token = Fixture.token(1).hex
            try bench.simulator.install(token, environment: .sandbox)
            let dispatcher = try bench.startDispatcher()
            var delivery = Fixture.delivery(1)
            delivery.environmentTrial = .allowed
            try await bench.publish(job([delivery]))
            let attempt = try await bench.events.next()
            #expect(attempt.outcome == .tokenRejected && !attempt.isFinal)
            let end = try await bench.events.next()
            #expect(end.outcome == .accepted && end.isFinal)
            #expect(end.deliveries.first?.environment == .sandbox)
            try await dispatcher.stop()
            #expect(bench.simulator.journal().map(\.environment) == [.production, .sandbox])
            #expect(Set(bench.simulator.journal().map(\.apnsID)) == [delivery.id.description])
            #expect(try await bench.waitingJobs() == 0)
        }
    }

    @Test("A throttled delivery comes back through a delayed queue, alone, and is accepted")
    func retries() async throws {
        try await withServiceBench { bench in
            try bench.simulator.script(Fixture.token(2).hex, [.reject(.tooManyRequests)])
            let dispatcher = try bench.startDispatcher()
            try await bench.publish(job([Fixture.delivery(1), Fixture.delivery(2)]))
            let throttled = try await bench.events.first { $0.outcome == .throttled }
            #expect(!throttled.isFinal)
            #expect(throttled.deliveries.map(\.attempt) == [1])
            let accepted = try await bench.events.first {
                $0.outcome == .accepted && $0.deliveries.contains { $0.id == Fixture.delivery(2).id }
            }
            #expect(accepted.deliveries.map(\.attempt) == [2])
            try await dispatcher.stop()
            #expect(bench.simulator.journal().count == 3)
            #expect(try await bench.waitingJobs() == 0)
        }
    }

    @Test("A call whose answer is lost is sent once more at once, and not a third time; a push that must not come twice is sent once")
    func sendsSecondCopies() async throws {
        try await withServiceBench { bench in
            for number in 1...2 { try bench.simulator.script(Fixture.token(number).hex, [.close, .close, .close]) }
            let dispatcher = try bench.startDispatcher()
            for (number, policy) in [(1, PushJob.OnUnknown.resendOnce), (2, .drop)] {
                var job = job([Fixture.delivery(number)])
                job.onUnknown = policy
                try await bench.publish(job)
                let outcome = try await bench.finalOutcomes(1)
                #expect(outcome == [Fixture.delivery(number).id: [.unknown]])
            }
            try await dispatcher.stop()
            let tokens = bench.simulator.journal().compactMap(\.token)
            #expect(tokens == [1, 1, 2].map { Fixture.token($0).hex })
            #expect(try await bench.waitingJobs() == 0)
        }
    }

    @Test("A fence that stood in the control stream before the dispatcher began stops the first job already")
    func readsControlFirst() async throws {
        try await withServiceBench { bench in
            let installation = PushID.random()
            try await bench.publish(job([Fixture.delivery(1, installation: installation, ownerEpoch: 4), Fixture.delivery(2)]))
            for number in 0..<500 {
                try await bench.publish(
                    .fence(
                        app: Fixture.shop, installation: number == 499 ? installation : .random(), epochsBelow: 5,
                        at: WallClock.milliseconds()))
            }
            let dispatcher = try bench.startDispatcher()
            let outcomes = try await bench.finalOutcomes(2)
            #expect(outcomes[Fixture.delivery(1).id] == [.fenced])
            #expect(outcomes[Fixture.delivery(2).id] == [.accepted])
            try await dispatcher.stop()
            #expect(bench.simulator.journal().map(\.token) == [Fixture.token(2).hex])
        }
    }

    @Test("A fence that is written while a delivery waits for its retry stops the retry")
    func fencesRetries() async throws {
        try await withServiceBench { bench in
            let installation = PushID.random()
            try bench.simulator.script(Fixture.token(1).hex, [.reject(.tooManyRequests)])
            let dispatcher = try bench.startDispatcher()
            try await bench.publish(job([Fixture.delivery(1, installation: installation, ownerEpoch: 1)]))
            try await bench.events.first { $0.outcome == .throttled }
            try await bench.publish(.fence(app: Fixture.shop, installation: installation, epochsBelow: 2, at: WallClock.milliseconds()))
            #expect(try await bench.finalOutcomes(1) == [Fixture.delivery(1).id: [.fenced]])
            try await dispatcher.stop()
            #expect(bench.simulator.journal().count == 1)
        }
    }

    @Test("A message that is not a job goes to the dead-letter queue with its reason and delays nothing")
    func buriesPoison() async throws {
        try await withServiceBench { bench in
            let dispatcher = try bench.startDispatcher()
            try await bench.publish([
                OutgoingMessage(
                    exchange: bench.topology.jobsExchange, routingKey: "now", messageID: .random(), contentType: "text/plain",
                    headers: ["traceparent": "t"], body: Array("poison".utf8))
            ])
            try await bench.publish(job([Fixture.delivery(1)]))
            let letter = try await bench.deadLetters.next()
            #expect(letter.header("push-reason") == "undecodable")
            #expect(letter.header("traceparent") == "t")
            #expect(letter.body == Array("poison".utf8))
            #expect(try await bench.finalOutcomes(1).values.first == [.accepted])
            try await dispatcher.stop()
            #expect(try await bench.waitingJobs() == 0)
        }
    }

    @Test("A key that APNs refuses pauses its own app only, and touches no token")
    func isolates() async throws {
        try await withServiceBench { bench in
            let dispatcher = try bench.startDispatcher()
            try await bench.publish(job([Fixture.delivery(1)], app: Fixture.other))
            let refused = try await bench.events.next()
            #expect(refused.outcome == .misconfigured)
            #expect(!refused.isFinal)
            try await bench.publish([job([Fixture.delivery(2)], app: Fixture.other), job([Fixture.delivery(3)])])
            #expect(try await bench.finalOutcomes(1) == [Fixture.delivery(3).id: [.accepted]])
            #expect(
                dispatcher.registry.render().contains(
                    #"push_dispatcher_apns_pool_state{api="device",credential="other",environment="production",state="paused"} 1"#))
            try await dispatcher.stop()
            #expect(try await bench.waitingJobs() == 0)
        }
    }

    /// The publisher alone needs the retries.
    @Test("A dispatcher whose publisher cannot connect takes no job") func missingRetries() async throws {
        try await withServiceBench { bench in
            let topology = bench.topology
            try await bench.publish(CredentialServiceTests.job([Fixture.delivery(1)]))
            try await TestBroker.withConnection(bench.broker) { try $0.deleteExchange(topology.retryExchange(.tenMinutes)) }
            let lines = Lines()
            let dispatcher = try bench.startDispatcher(logger: Logger(label: "test") { _ in lines }) { $0.topologyOwnership = .operators }
            // All other connections are there by then.
            while lines.all.count(where: { $0.message == "No connection to the broker" }) < 5 {
                try await Task.sleep(for: .milliseconds(20))
            }
            #expect(bench.simulator.journal().isEmpty)
            try await TestBroker.withConnection(bench.broker) { try topology.declare(on: $0) }
            #expect(try await bench.finalOutcomes(1) == [Fixture.delivery(1).id: [.accepted]])
            try await dispatcher.stop()
        }
    }
}
