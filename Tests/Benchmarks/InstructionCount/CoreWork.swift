import Broker
import Dispatcher
import PushModel
import RabbitMQ

/// Jobs on their way through the core: received, decoded, submitted, accepted, reported, confirmed and acknowledged.
struct CoreWork {
    private let deliveriesPerJob: Int
    private let topology = Topology(prefix: "push")
    private let app: AppSlug
    private var core: CoreRun
    private var lastJob: UInt64 = 0

    init(deliveriesPerJob: Int) throws {
        self.deliveriesPerJob = deliveriesPerJob
        app = try Content.app()
        core = CoreRun(topology: topology, app: app, credential: try Content.credential(), now: Content.now)
    }

    /// - Returns: the deliveries that were counted.
    mutating func run(turns: Int, jobs: Int) throws -> Int {
        // Tables grow to their size.
        for _ in 0..<turns { core.work(on: try messages(jobs)) }
        let (answered, acknowledged) = (core.answered, core.acknowledged)
        for _ in 0..<turns { countedWork(on: try messages(jobs)) }
        guard core.acknowledged - acknowledged == turns * jobs, core.answered - answered == turns * jobs * deliveriesPerJob else {
            throw UnexpectedResult(description: "\(core.acknowledged) jobs are acknowledged, and \(core.answered) requests answered")
        }
        return core.answered - answered
    }

    @inline(never)
    private mutating func countedWork(on messages: [ReceivedMessage]) { core.work(on: messages) }

    private mutating func messages(_ count: Int) throws -> [ReceivedMessage] {
        try (0..<count).map { _ in
            lastJob += 1
            return try message(lastJob)
        }
    }

    private func message(_ number: UInt64) throws -> ReceivedMessage {
        let job = PushJob(
            notification: Content.id(number), app: app, lane: .now, pushType: .alert, topic: Content.topic, priority: 10,
            apnsExpiration: Content.now / 1000 + 86_400, expiresAt: Content.now + 86_400_000, acceptedAt: Content.now, onUnknown: .resend,
            payload: Content.payload,
            deliveries: try (0..<UInt64(deliveriesPerJob)).map { index in
                let place = number << 8 | index
                return PushJob.Delivery(
                    id: Content.id(place << 1), token: try Content.token(place), environment: .production,
                    installation: Content.id(place << 1 | 1), ownerEpoch: 1)
            })
        return ReceivedMessage(
            tag: number, queue: topology.jobQueue(.now), routingKey: topology.jobRoutingKey(.now), properties: properties(number),
            body: job.encoded())
    }

    /// As the token service's publisher writes them (AMQP 0-9-1, section 4.2.6.1): content type, headers, delivery mode, message id.
    private func properties(_ number: UInt64) -> RabbitMQProperties {
        func short(_ text: String) -> [UInt8] { [UInt8(text.utf8.count)] + Array(text.utf8) }
        func long(_ count: Int) -> [UInt8] { (0..<4).map { UInt8(truncatingIfNeeded: count >> (24 - 8 * $0)) } }
        let (trace, span) = (Content.id(number << 2).description, Content.id(number << 2 | 1).description)
        let digits = (trace + span).filter { $0 != "-" }
        let traceparent = "00-\(digits.prefix(32))-\(digits.suffix(16))-00"
        let table = [("traceparent", traceparent), (PushJob.appHeader, app.text)].flatMap { name, value in
            short(name) + [UInt8(ascii: "S")] + long(value.utf8.count) + Array(value.utf8)
        }
        var bytes: [UInt8] = [0xb0, 0x80] + short(PushJob.contentType) + long(table.count) + table
        var random = FixedRandom(seed: number)
        bytes += [2] + short(PushID.timeOrdered(milliseconds: Content.now, using: &random).description)
        return RabbitMQProperties(encoded: bytes)
    }
}
