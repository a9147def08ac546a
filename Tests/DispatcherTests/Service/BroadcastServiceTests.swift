import APNs
import APNsSimulator
import Broker
import Logging
import Observability
import PushModel
import RabbitMQ
import SystemIO
import TestBroker
import TestIdentity
import TestSupport
import Testing

@testable import Dispatcher

@Suite("Broadcasts and channels between a real broker and Apple's protocol", .timeLimit(.minutes(5)))
struct BroadcastServiceTests {
    private static let bundleID = "com.example.shop"

    private func command(
        _ request: ChannelCommand.Request, app: AppSlug = Fixture.shop, expiresIn milliseconds: Int64 = 60_000
    ) -> ChannelCommand {
        ChannelCommand(
            id: .random(), app: app, environment: .production, bundleID: Self.bundleID, request: request,
            expiresAt: WallClock.milliseconds() + milliseconds)
    }

    private func answer(_ request: ChannelCommand.Request, _ bench: ServiceBench) async throws -> ChannelAnswer {
        let command = command(request)
        try await bench.publish(command)
        let answer = try await bench.channelAnswers.next()
        #expect(answer.command == command.id && answer.app == command.app && answer.environment == command.environment)
        #expect(answer.operation == request.operation)
        return answer
    }

    private func create(_ bench: ServiceBench, _ storage: ChannelStorage = .latest) async throws -> ChannelID {
        let answer = try await answer(.create(storage), bench)
        #expect(answer.result == .done && answer.status == 201 && answer.storage == storage)
        return try #require(answer.channelID.flatMap { ChannelID($0) })
    }

    private func broadcast(_ number: Int, to channel: ChannelID) -> PushJob {
        var job = Fixture.broadcast([Fixture.delivery(number, to: channel)], notification: UInt64(number))
        job.acceptedAt = WallClock.milliseconds()
        job.expiresAt = job.acceptedAt + 3_600_000
        return job
    }

    private func leftCommands(_ bench: ServiceBench) async throws -> Int {
        try await TestBroker.messageCount(bench.topology.commandsQueue, bench.broker)
    }

    @Test("Each kind of command is performed, answered and acknowledged, and counted") func commands() async throws {
        try await withServiceBench { bench in
            let dispatcher = try bench.startDispatcher()
            let channel = try await create(bench, .none)
            let read = try await answer(.read(channel), bench)
            #expect(read.result == .done && read.status == 200 && read.storage == ChannelStorage.none && read.channelID == channel.text)
            let listed = try await answer(.list, bench)
            #expect(listed.result == .done && listed.status == 200 && listed.channels == [channel.text])
            let deleted = try await answer(.delete(channel), bench)
            #expect(deleted.result == .done && deleted.status == 204 && deleted.channelID == channel.text)
            let again = try await answer(.delete(channel), bench)
            #expect(again.result == .refused && again.status == 400 && again.reason == "ChannelNotRegistered")
            let page = dispatcher.registry.render()
            #expect(page.contains(#"push_dispatcher_channel_commands_total{operation="delete",result="done"} 1"#))
            #expect(page.contains(#"push_dispatcher_channel_commands_total{operation="delete",result="refused"} 1"#))
            #expect(MetricsLint.faults(of: page) == [])
            try await dispatcher.stop()
            #expect(try await leftCommands(bench) == 0)
        }
    }

    @Test("A broadcast reaches every follower with one request, and its connections are made when they are needed")
    func broadcasts() async throws {
        try await withServiceBench { bench in
            let dispatcher = try bench.startDispatcher()
            let channel = try await create(bench)
            let devices = (1...50).map { Fixture.token($0).hex }
            for device in devices {
                try bench.simulator.install(device)
                #expect(try bench.simulator.listen(device, to: [channel.text]) == nil)
            }
            bench.simulator.clearJournal()
            #expect(!dispatcher.registry.render().contains(#"api="broadcast""#))
            try await bench.publish(broadcast(1, to: channel))
            #expect(try await bench.finalOutcomes(1) == [Fixture.delivery(1).id: [.accepted]])
            #expect(dispatcher.registry.render().contains(#"api="broadcast""#))
            for device in devices { #expect(try await bench.simulator.inbox(device, reaching: 1).count == 1) }
            try await dispatcher.stop()
            #expect(bench.simulator.journal().map(\.apnsID) == [Fixture.delivery(1).id.description])
            #expect(try await bench.waitingJobs() == 0)
        }
    }

    @Test("A broadcast that APNs throttles is tried again and accepted") func retries() async throws {
        try await withServiceBench { bench in
            let dispatcher = try bench.startDispatcher()
            let channel = try await create(bench)
            try bench.simulator.play(
                Scenario(
                    text: #"""
                        {"v":1,"name":"throttled","requests":[
                          {"on":["broadcast"],"positions":[1],"do":[{"action":"answer","status":429,"reason":"TooManyRequests"}]}]}
                        """#))
            bench.simulator.clearJournal()
            try await bench.publish(broadcast(1, to: channel))
            let throttled = try await bench.events.next()
            #expect(throttled.outcome == .throttled && !throttled.isFinal)
            #expect(try await bench.finalOutcomes(1) == [Fixture.delivery(1).id: [.accepted]])
            try await dispatcher.stop()
            #expect(bench.simulator.journal().map(\.status) == [429, 200])
            #expect(Set(bench.simulator.journal().map(\.apnsID)) == [Fixture.delivery(1).id.description])
        }
    }

    @Test("A broadcast to a channel that APNs does not have is rejected for good, and no token is") func rejects() async throws {
        try await withServiceBench { bench in
            let dispatcher = try bench.startDispatcher()
            try await bench.publish(broadcast(1, to: Fixture.channel()))
            let event = try await bench.events.next()
            #expect(event.outcome == .rejected && event.isFinal)
            #expect(event.deliveries.map(\.reason) == ["ChannelNotRegistered"])
            #expect(event.deliveries.map(\.installation) == [.zero])
            try await dispatcher.stop()
        }
    }

    @Test("The breaker of the device pool does not stop broadcasts") func breaker() async throws {
        try await withServiceBench { bench in
            let dispatcher = try bench.startDispatcher()
            let channel = try await create(bench)
            try bench.simulator.play(
                Scenario(
                    text:
                        #"""
                        {"v":1,"name":"down","requests":[
                          {"on":["push"],"do":[{"action":"answer","status":500,"reason":"InternalServerError"}]}]}
                        """#
                ))
            var job = Fixture.job((1...10).map { Fixture.delivery($0) })
            job.expiresAt = WallClock.milliseconds() + 3_600_000
            let device = #"push_dispatcher_apns_pool_state{api="device",credential="shop",environment="production",state="unavailable"} 1"#
            while !dispatcher.registry.render().contains(device) {
                job.notification = .random()
                try await bench.publish(job)
                _ = try await bench.events.next()
            }
            try await bench.publish(broadcast(11, to: channel))
            var accepted = false
            while !accepted {
                let event = try await bench.events.next()
                accepted = event.outcome == .accepted && event.deliveries.map(\.id) == [Fixture.delivery(11).id]
            }
            try await dispatcher.stop()
        }
    }

    @Test("A credential that APNs refuses pauses broadcasts too, and commands are refused with APNs' reason")
    func refusedCredential() async throws {
        try await withServiceBench { bench in
            bench.simulator.revoke(keyID: TestIdentity.keyID)
            let dispatcher = try bench.startDispatcher()
            try await bench.publish(broadcast(1, to: Fixture.channel()))
            let event = try await bench.events.next()
            #expect(event.outcome == .misconfigured && !event.isFinal)
            #expect(event.deliveries.map(\.reason) == ["InvalidProviderToken"])
            let refused = try await answer(.list, bench)
            #expect(refused.result == .refused && refused.status == 403 && refused.reason == "InvalidProviderToken")
            for api in ["broadcast", "channels"] {
                let line = #"push_dispatcher_apns_pool_state{api="\#(api)",credential="shop",environment="production",state="paused"} 1"#
                #expect(dispatcher.registry.render().contains(line))
            }
            try await dispatcher.stop()
        }
    }

    @Test("A create whose answer APNs swallows is unanswered, and is not made again") func losesAnswers() async throws {
        try await withServiceBench { bench in
            let dispatcher = try bench.startDispatcher(pools: { $0.requestTimeout = .seconds(5) })
            try bench.simulator.play(
                Scenario(
                    text:
                        #"""
                        {"v":1,"name":"late","requests":[{"on":["channels"],"positions":[1],"do":[{"action":"late","delay_ms":600000}]}]}
                        """#)
            )
            let lost = try await answer(.create(.none), bench)
            #expect(lost.result == .unanswered && lost.reason == "timed_out" && lost.channelID == nil)
            _ = await bench.simulator.journal(reaching: 1)
            try bench.simulator.playNothing()
            // APNs made it.
            #expect(try await answer(.list, bench).channels?.count == 1)
            try await dispatcher.stop()
            #expect(bench.simulator.journal().count { $0.status == 201 } == 1)
            #expect(try await leftCommands(bench) == 0)
        }
    }

    /// Takes the commands in the queue as a dispatcher does that dies before it acknowledges them.
    private func die(holding count: Int, _ bench: ServiceBench) async throws {
        let taken = Signal<ReceivedMessage>()
        let consumer = try Consumer(
            name: "dead", configuration: bench.broker, topology: bench.topology,
            subscriptions: [Subscription(queue: bench.topology.commandsQueue, prefetch: 100)], drainTimeout: .zero, logger: .silent,
            onMessages: { taken.send(contentsOf: $0) })
        let task = Task { try await consumer.run() }
        _ = try await taken.next(count)
        task.cancel()
        _ = await task.result
    }

    @Test("If a dispatcher dies with commands, another one does them, but no create") func redelivers() async throws {
        try await withServiceBench { bench in
            let (create, list) = (command(.create(.none)), command(.list))
            try await bench.publish(create)
            try await bench.publish(list)
            try await die(holding: 2, bench)
            let dispatcher = try bench.startDispatcher()
            var answers: [PushID: ChannelAnswer] = [:]
            for answer in try await bench.channelAnswers.next(2) { answers[answer.command] = answer }
            #expect(answers[create.id]?.result == .unanswered && answers[create.id]?.reason == "redelivered")
            #expect(answers[list.id]?.result == .done && answers[list.id]?.channels == [])
            try await dispatcher.stop()
            #expect(!bench.simulator.journal().contains { $0.status == 201 })
        }
    }

    @Test("A dispatcher makes no request for a command that has expired, or for an app without a credential")
    func makesNoRequest() async throws {
        try await withServiceBench { bench in
            let dispatcher = try bench.startDispatcher()
            let (late, foreign) = (command(.create(.none), expiresIn: 0), command(.create(.none), app: Fixture.unconfigured))
            try await bench.publish(late)
            #expect(try await bench.channelAnswers.next().result == .expired)
            try await bench.publish(foreign)
            #expect(try await bench.channelAnswers.next().result == .noCredential)
            try await dispatcher.stop()
            #expect(!bench.simulator.journal().contains { $0.status == 201 })
            #expect(try await leftCommands(bench) == 0)
        }
    }

    @Test("A command that cannot be sent is answered at its expiry, and delays no other") func cannotConnect() async throws {
        try await withServiceBench { bench in
            let nowhere = try #require(SettingURL("https://127.0.0.1:\(FreePorts.closed)"))
            let lines = Lines()
            let dispatcher = try bench.startDispatcher(
                logger: Logger(label: "test", factory: { _ in lines }),
                { $0.endpoints[EndpointKey(.production, .channels)] = nowhere },
                pools: { $0.patience = .milliseconds(200) })
            // It has begun its work: the time of the command is that of its tries.
            try await bench.publish(command(.list, app: Fixture.unconfigured))
            #expect(try await bench.channelAnswers.next().result == .noCredential)
            // More than a dispatcher has at once: another team's command comes behind them.
            for _ in 0..<20 { try await bench.publish(command(.create(.none), expiresIn: 10_000)) }
            try await bench.publish(command(.list, app: Fixture.unconfigured))
            #expect(try await bench.channelAnswers.next().result == .noCredential)
            for _ in 0..<20 {
                let answer = try await bench.channelAnswers.next()
                #expect(answer.result == .expired && answer.reason == "not_connected")
            }
            let waits = lines.all.filter { $0.message == "A command for a broadcast channel waits" }
            #expect(!waits.isEmpty && waits.allSatisfy { $0.metadata["reason"] == "not_connected" && $0.metadata["app"] == "shop" })
            try await dispatcher.stop()
        }
    }

    @Test("A dispatcher that stops answers its commands, and does not wait for their expiry") func stops() async throws {
        try await withServiceBench { bench in
            let dispatcher = try bench.startDispatcher { $0.shutdownDeadline = .seconds(10) }
            _ = try await create(bench)
            try bench.simulator.play(
                Scenario(text: #"{"v":1,"name":"silent","requests":[{"on":["channels"],"do":[{"action":"silence"}]}]}"#))
            try await bench.publish(command(.create(.none)))
            _ = await bench.simulator.journal(reaching: 2)
            try await dispatcher.stop()
            let answer = try await bench.channelAnswers.next()
            #expect(answer.result == .unanswered && answer.reason == "shutdown")
            #expect(try await leftCommands(bench) == 0)
        }
    }

    @Test("A command that waits for a connection does not delay the stop") func stopsWhileWaiting() async throws {
        try await withServiceBench { bench in
            let nowhere = try #require(SettingURL("https://127.0.0.1:\(FreePorts.closed)"))
            let dispatcher = try bench.startDispatcher(
                {
                    $0.endpoints[EndpointKey(.production, .channels)] = nowhere
                    $0.shutdownDeadline = .seconds(10)
                }, pools: { $0.patience = .milliseconds(200) })
            // Answers can be published: without that the stop returns the command to the queue.
            try await bench.publish(command(.list, app: Fixture.unconfigured))
            #expect(try await bench.channelAnswers.next().result == .noCredential)
            try await bench.publish(command(.create(.none)))
            let failed = #/push_dispatcher_apns_connections_failed_total{api="channels",credential="shop",environment="production"} [1-9]/#
            try await dispatcher.untilMetrics { $0.contains(failed) }
            try await dispatcher.stop()
            // It waits in the broker for another dispatcher.
            while try await leftCommands(bench) == 0 { try await Task.sleep(for: .milliseconds(50)) }
        }
    }

    @Test("A command stays unacknowledged until the broker has the answer, and returns to the queue at a stop")
    func acknowledgesLast() async throws {
        try await withServiceBench(listensAfter: Gate()) { bench in
            let dispatcher = try bench.startDispatcher {
                $0.shutdownDeadline = .seconds(10)
                // No connection declares the deleted queues again.
                $0.topologyOwnership = .operators
            }
            let done = #"push_dispatcher_channel_commands_total{operation="list",result="done"} "#
            try await bench.publish(command(.list))
            try await dispatcher.untilMetrics { $0.contains(done + "1") }
            // It is counted before it is published: without its answer in the broker, it would stay unacknowledged, too.
            while try await TestBroker.messageCount(bench.topology.tokenServiceOutcomesQueue, bench.broker) == 0 {
                try await Task.sleep(for: .milliseconds(50))
            }
            try await TestBroker.withConnection(bench.broker) { [topology = bench.topology] connection in
                try connection.deleteQueue(topology.tokenServiceOutcomesQueue)
                try connection.deleteQueue(topology.waitingOutcomesQueue)
            }
            try await bench.publish(command(.list))
            try await dispatcher.untilMetrics { $0.contains(done + "2") }
            try await dispatcher.stop()
            // The broker puts it back into its queue in its own time.
            while try await leftCommands(bench) == 0 { try await Task.sleep(for: .milliseconds(50)) }
            #expect(try await leftCommands(bench) == 1)
        }
    }

    @Test("A message that is no command becomes a dead letter") func refusesOthers() async throws {
        try await withServiceBench { bench in
            let dispatcher = try bench.startDispatcher()
            try await bench.publish([
                OutgoingMessage(
                    exchange: "", routingKey: bench.topology.commandsQueue, messageID: .random(), contentType: "x", body: [1, 2, 3])
            ])
            #expect(try await bench.deadLetters.next().body == [1, 2, 3])
            try await dispatcher.stop()
        }
    }
}

extension ServiceBench.Running {
    fileprivate func untilMetrics(_ isEnough: (String) -> Bool) async throws {
        while !isEnough(registry.render()) { try await Task.sleep(for: .milliseconds(20)) }
    }
}
