import ArgumentParser
import Broker
import FoundationEssentials
import Logging
import PushModel
import RabbitMQ
import Synchronization

/// The result of a count.
struct OutcomeCount: Sendable {
    var events = 0
    var accepted = 0
    var repeated = 0
    var last = ContinuousClock.now
    private var seen: Set<PushID> = []

    var deliveries: Int { seen.count }

    init() {}

    mutating func add(_ event: OutcomeEvent) {
        guard event.isFinal else { return }
        events += 1
        for delivery in event.deliveries {
            if seen.insert(delivery.id).inserted {
                if event.outcome == .accepted { accepted += 1 }
            } else {
                repeated += 1
            }
        }
        last = .now
    }
}

/// Takes outcome events in place of the token service until the given number of deliveries has a final one.
func countOutcomes(_ deliveries: Int, _ broker: BrokerOptions) async throws -> OutcomeCount {
    let topology = broker.topology
    let (batches, put) = AsyncStream.makeStream(of: [ReceivedMessage].self)
    let consumer = try Consumer(
        name: "count", configuration: try broker.configuration(), topology: topology,
        subscriptions: [Subscription(queue: topology.tokenServiceOutcomesQueue, prefetch: 1000)], drainTimeout: .seconds(2),
        logger: Logger(label: "benchmark"), onMessages: { put.yield($0) })
    return try await withThrowingTaskGroup(of: Void.self) { group in
        group.addTask { try await consumer.run() }
        var count = OutcomeCount()
        for await messages in batches {
            for message in messages where message.routingKey != CredentialReport.routingKey {
                count.add(try OutcomeEvent(decoding: message.body))
            }
            consumer.acknowledge(messages.map(\.deliveryTag))
            if count.deliveries >= deliveries { break }
        }
        group.cancelAll()
        return count
    }
}

struct ProcessOptions: ParsableArguments {
    @Option(help: "The dispatcher's process id: its CPU time is measured too.") var pid: Int?

    /// User and system time so far, in seconds.
    func cpu() throws -> Double? { try pid.map { try ProcessUsage.cpuSeconds(of: Int32($0)) } }
}

func unixMilliseconds() -> Int64 { Int64(Date().timeIntervalSince1970 * 1000) }
