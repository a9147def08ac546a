import Broker
import Logging
import Postgres
import PushModel
import TestSupport
import Testing
import TokenService

extension RunningService {
    /// Reads a queue, or a stream from its beginning, as a dispatcher would, while `body` runs.
    func tap<R: Sendable>(_ subscription: Subscription, _ body: @Sendable (Signal<ReceivedMessage>) async throws -> R) async throws -> R {
        let signal = Signal<ReceivedMessage>()
        let reader = Reader()
        let consumer = try Consumer(
            configuration: broker, topology: topology, subscriptions: [subscription], logger: Logger(label: "tap"),
            onMessages: { messages in
                signal.send(contentsOf: messages)
                reader.acknowledge(messages)
            })
        reader.consumer.open(consumer)
        return try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { try await consumer.run() }
            defer { group.cancelAll() }
            return try await body(signal)
        }
    }

    /// The next jobs of a lane, decoded.
    func jobs<R: Sendable>(_ lane: Lane = .now, _ body: @Sendable (Signal<ReceivedMessage>) async throws -> R) async throws -> R {
        try await tap(Subscription(queue: topology.jobQueue(lane), prefetch: 100), body)
    }

    /// Every fence that stands on the control stream at this moment, each once: where writing down that it stands there takes long, the
    /// relay publishes it again.
    func fences() async throws -> [Fence] {
        let marker = PushID.random()
        let message = OutgoingMessage(
            exchange: "", routingKey: topology.controlStream, messageID: .random(), contentType: ControlMessage.contentType,
            body: ControlMessage.marker(id: marker).encoded())
        #expect(await service.publisher.publish([message], deadline: .seconds(30)) == [.confirmed])
        return try await tap(.stream(topology.controlStream, prefetch: 100)) { signal in
            var fences: [Fence] = []
            while true {
                switch try ControlMessage(decoding: try await signal.next().body) {
                case .marker(let id) where id == marker: return fences
                case .fence(_, let installation, let epochsBelow, _):
                    let fence = Fence(installation: installation, epochsBelow: epochsBelow)
                    if !fences.contains(fence) { fences.append(fence) }
                default: continue
                }
            }
        }
    }

    struct Fence: Hashable, Sendable {
        let installation: PushID
        let epochsBelow: Int64
    }

    /// Reports what became of a job's deliveries, as a dispatcher would, and returns when it is in the queue.
    func report(
        _ outcome: OutcomeClass, of job: PushJob, final: Bool = true, status: Int? = nil, reason: String? = nil, timestamp: Int64? = nil,
        sentAt: Int64? = nil, retryAt: Int64? = nil, attempt: Int = 1, environment: APNsEnvironment? = nil
    ) async throws {
        let event = OutcomeEvent(
            id: .random(), source: "/push/dispatcher/test", time: UnixClock.now(), app: job.app, outcome: outcome, isFinal: final,
            deliveries: job.deliveries.map {
                OutcomeEvent.Delivery(
                    id: $0.id, notification: job.notification, installation: $0.installation, attempt: attempt, ownerEpoch: $0.ownerEpoch,
                    status: status, reason: reason, timestamp: timestamp, sentAt: sentAt, retryAt: retryAt, environment: environment)
            })
        try await report(event)
    }

    func report(_ event: OutcomeEvent) async throws {
        try await publishOutcome(event.encoded(), routingKey: event.routingKey)
    }

    func publishOutcome(_ body: [UInt8], routingKey: String) async throws {
        let message = OutgoingMessage(
            exchange: topology.outcomesExchange, routingKey: routingKey, messageID: .random(), contentType: OutcomeEvent.contentType,
            body: body)
        #expect(await service.publisher.publish([message], deadline: .seconds(30)) == [.confirmed])
    }

    /// Sends, and takes the job as a dispatcher would.
    func sendAndTake(_ to: String, with client: APITestClient, more: String = "") async throws -> PushJob {
        try await jobs { signal in
            let answer = try await client.send(to, more: more)
            #expect(answer.status == 202)
            return try PushJob(decoding: try await signal.next().body)
        }
    }

    /// Returns when the notification is `sending` and all of its jobs are written down as published.
    func sending(_ id: PushID, _ client: APITestClient) async throws {
        _ = try await eventually { () -> Bool? in
            guard try await client.status(id.description).text("state") == "sending" else { return nil }
            let left = try await count("SELECT count(*) FROM jobs WHERE notification = \(id) AND published_at IS NULL")
            return left == 0 ? true : nil
        }
    }

    /// The status document when every delivery has its outcome.
    func completed(_ id: PushID, _ client: APITestClient) async throws -> APITestClient.Answer {
        try await eventually {
            let answer = try await client.get("/v1/apps/shop/notifications/\(id)")
            return answer.json.text("state") == "completed" ? answer : nil
        }
    }
}

/// Acknowledges what was read, so that a stream goes on.
private final class Reader: Sendable {
    let consumer = Box<Consumer>()

    func acknowledge(_ messages: [ReceivedMessage]) { consumer.value?.acknowledge(messages.map(\.deliveryTag)) }
}
