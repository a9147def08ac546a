package import APNs
package import Broker
package import PushModel
import RabbitMQ

/// The core without ``CoreLoop``'s thread, for Tests/Benchmarks/InstructionCount: APNs accepts each request, and the broker confirms each
/// message. It uses no socket and no clock, so the same messages cost the same instructions.
package struct CoreRun {
    private var core: DispatcherCore
    private var events: [CoreEvent] = []
    /// UNIX milliseconds. Each turn of the loop takes one.
    private var now: Int64
    /// Requests that APNs has answered.
    package private(set) var answered = 0
    /// Jobs that are settled.
    package private(set) var acknowledged = 0

    /// - Parameters:
    ///   - credential: serves every topic of `app` in production.
    ///   - now: UNIX milliseconds.
    package init(topology: Topology, app: AppSlug, credential: APNsCredential, now: Int64) {
        var rules = CoreRules(topology: topology, source: "/push/dispatcher/measured")
        rules.heartbeatInterval = .max
        let entry = CredentialsEntry(credential: credential, environments: [.production], apps: [app])
        core = DispatcherCore(rules: rules, directory: CredentialDirectory(CredentialsFile(entries: [entry])), gate: ControlGate(), seed: 1)
        self.now = now
        events.append(.controlConnection(isUp: true))
        drain()
    }

    /// Takes jobs and works until each is acknowledged.
    package mutating func work(on messages: [ReceivedMessage]) {
        events.append(.jobsReceived(messages))
        drain()
    }

    /// Handles the events that arrived, as ``CoreLoop/run()`` does.
    private mutating func drain() {
        repeat {
            var arrived: [CoreEvent] = []
            swap(&arrived, &events)
            for event in arrived {
                core.handle(event, at: now)
                perform(core.takeActions())
            }
            core.beginNext(at: now)
            perform(core.takeActions())
            if now % 100 == 0 { core.tick(at: now) }
            if !core.hasWork, events.isEmpty { core.flushIfDue(at: now) }
            perform(core.takeActions())
            _ = core.takeTally()
            now += 1
        } while core.hasWork || !events.isEmpty || core.book.isHolding
    }

    private mutating func perform(_ actions: [CoreAction]) {
        for action in actions {
            switch action {
            case .submit(let batch, _):
                answered += batch.requests.count
                let answers = batch.requests.map {
                    APNsAnswer(
                        index: $0.index, sentAt: now, result: .response(status: 200, reason: nil, timestamp: nil, retryAfter: nil))
                }
                events.append(.batchFinished(APNsFinishedBatch(batch: batch, answers: answers)))
            case .publish(let number, let messages):
                events.append(.published(number, messages.indices.map { PublishAnswer(index: $0, outcome: .confirmed) }))
            case .publishMarker(let marker, let message):
                events.append(.markerPublished(marker, .confirmed))
                events.append(
                    .controlReceived([
                        ReceivedMessage(
                            tag: 1, queue: message.routingKey, routingKey: message.routingKey,
                            properties: RabbitMQProperties(encoded: [0, 0]), body: message.body)
                    ]))
            case .acknowledge(_, let deliveryTags): acknowledged += deliveryTags.count
            // None of these follows a job whose deliveries all arrive.
            case .reconnectControl, .reconnectPublisher, .giveBack, .discard, .acknowledgeControl, .startTaking, .stopTaking, .retirePools,
                .shutDownPools, .note:
                break
            }
        }
    }
}
