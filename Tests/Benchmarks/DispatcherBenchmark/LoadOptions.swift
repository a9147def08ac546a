import ArgumentParser
import Broker
import Logging
import PushModel
import RabbitMQ

struct BrokerOptions: ParsableArguments {
    @Option(help: "The broker, amqp://user:password@host:port/vhost.") var amqp: String
    @Option(help: "First word of every exchange and queue.") var prefix = "push"

    var topology: Topology { Topology(prefix: prefix) }

    /// The same broker, other exchanges and queues.
    func on(_ prefix: String) throws -> BrokerOptions { try BrokerOptions.parse(["--amqp", amqp, "--prefix", prefix]) }

    func configuration() throws -> RabbitMQConfiguration { try RabbitMQConfiguration(uri: amqp, connectionName: "benchmark") }
}

struct LoadOptions: ParsableArguments {
    @Option(help: "How many jobs.") var jobs: Int
    @Option(help: "Deliveries in each job.") var deliveriesPerJob = 100
    @Option(help: "The app that a credential of the dispatcher names.") var app = "shop"
    @Option(help: "The apns-topic.") var topic = "com.example.shop"
    @Option(help: "now, soon or bulk.") var lane = "now"
    @Option(help: "production or sandbox.") var environment = "production"
    @Option(help: "Bytes of payload, at least 30.") var payloadBytes = 200
    @Option(help: "Which tokens: those that the simulator answers after so many milliseconds.") var answerMilliseconds = 0

    @Option(help: "Every so many jobs one whose trace is sampled; 0: none. The others carry a trace that is not.") var sampleEvery = 0

    var deliveries: Int { jobs * deliveriesPerJob }

    func validate() throws {
        guard AppSlug(app) != nil, Lane(rawValue: lane) != nil, APNsEnvironment(rawValue: environment) != nil else {
            throw ValidationError("--app, --lane or --environment is not a valid name")
        }
        guard (1...PushJob.maximumDeliveries).contains(deliveriesPerJob), jobs > 0, (30...4096).contains(payloadBytes) else {
            throw ValidationError("--deliveries-per-job is 1 to \(PushJob.maximumDeliveries), --jobs above 0, --payload-bytes 30 to 4096")
        }
    }

    /// Publishes everything, a few thousand messages at a time, and waits for the confirmations.
    func fill(_ publisher: Publisher, _ topology: Topology) async throws -> Duration {
        try await ContinuousClock().measure {
            var published = 0
            while published < jobs {
                let count = min(2000, jobs - published)
                let messages = try (0..<count).map { try message(published + $0, topology) }
                guard await publisher.publish(messages, deadline: .seconds(120)).allSatisfy(\.isConfirmed) else {
                    throw ValidationError("the broker did not confirm the jobs")
                }
                published += count
            }
        }
    }

    private func traceparent(_ number: Int) -> String {
        let isSampled = sampleEvery > 0 && number.isMultiple(of: sampleEvery)
        return "00-\(hex(.random(in: 1 ... .max)))\(hex(.random(in: 1 ... .max)))-\(hex(.random(in: 1 ... .max)))-0\(isSampled ? 1 : 0)"
    }

    private func hex(_ number: UInt64) -> String {
        let digits = String(number, radix: 16)
        return String(repeating: "0", count: 16 - digits.count) + digits
    }

    private func message(_ number: Int, _ topology: Topology) throws -> OutgoingMessage {
        guard let app = AppSlug(app), let lane = Lane(rawValue: lane), let environment = APNsEnvironment(rawValue: environment) else {
            throw ValidationError("not validated")
        }
        let now = unixMilliseconds()
        let job = PushJob(
            notification: .timeOrdered(milliseconds: now), app: app, lane: lane, pushType: .alert, topic: topic, priority: 10,
            apnsExpiration: now / 1000 + 86_400, expiresAt: now + 86_400_000, acceptedAt: now,
            onUnknown: .resend, payload: Array(alertPayload(bytes: payloadBytes).utf8),
            deliveries: try (0..<deliveriesPerJob).map { index in
                guard
                    let token = DeviceToken(
                        bytes: BenchTokens.bytes(number * deliveriesPerJob + index, answerMilliseconds: answerMilliseconds))
                else {
                    throw ValidationError("thirty-two bytes are a token")
                }
                return PushJob.Delivery(
                    id: .random(), token: token, environment: environment,
                    installation: PushID(high: UInt64(number) + 1, low: UInt64(index)),
                    ownerEpoch: 1)
            })
        return OutgoingMessage(
            exchange: topology.jobsExchange, routingKey: topology.jobRoutingKey(lane), messageID: .random(),
            contentType: PushJob.contentType, headers: [PushJob.appHeader: job.app.text, "traceparent": traceparent(number)],
            body: job.encoded())
    }
}

/// Runs a publisher around `body`.
func withPublisher<R: Sendable>(
    _ broker: BrokerOptions, _ body: @escaping @Sendable (Publisher, Topology) async throws -> R
) async throws -> R {
    let topology = broker.topology
    let publisher = try Publisher(
        name: "fill", configuration: try broker.configuration(), topology: topology, logger: Logger(label: "benchmark"))
    return try await withThrowingTaskGroup(of: Void.self) { group in
        group.addTask { try await publisher.run() }
        let result = try await body(publisher, topology)
        group.cancelAll()
        return result
    }
}
