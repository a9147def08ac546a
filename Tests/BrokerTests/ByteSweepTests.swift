import Broker
import PushModel
import RabbitMQ
import TestBroker
import TestSupport
import Testing

/// A connection may break at any byte, in either direction. Nothing hangs, and no accepted message is lost.
@Suite("A connection to RabbitMQ that breaks after any number of bytes", .timeLimit(.minutes(5)))
struct ByteSweepTests {
    /// The lanes share the numbers of bytes from 0 to 400. They run beside each other, because each break costs a pause.
    private static let lanes = 8

    private static func steps(_ lane: Int) -> StrideThrough<Int> { stride(from: lane, through: 400, by: lanes) }

    @Test("A connection that breaks early reports an error", arguments: [true, false]) func earlyBreak(isTowardsServer: Bool) async throws {
        try await withProxiedBroker { _, proxied, topology, proxy in
            try await onOwnThread {
                for bytes in 0...400 {
                    proxy.set(Self.conditions(isTowardsServer, bytes))
                    do {
                        let connection = try RabbitMQConnection.open(proxied)
                        // A connection that survived its handshake must break here.
                        try connection.selectConfirms()
                        for _ in 0..<20 { _ = try connection.messageCount(topology.jobQueue(.now)) }
                        Issue.record("the connection still works after \(bytes) bytes")
                    } catch is RabbitMQError {}
                }
            }
        }
    }

    @Test("A publisher loses no message when its connection breaks", arguments: [true, false], 0..<lanes)
    func publisherLosesNothing(isTowardsServer: Bool, lane: Int) async throws {
        try await withProxiedBroker { direct, proxied, topology, proxy in
            let publisher = try makePublisher(proxied, topology)
            let watching = try Watching(direct, topology, [Subscription(queue: topology.jobQueue(.now), prefetch: 500)])
            try await whileRunning(publisher, watching.consumer) {
                #expect(await publisher.publish([.job(topology)], deadline: nil) == [.confirmed])
                for bytes in Self.steps(lane) {
                    // The fault hits the open connection; the next one has no fault.
                    proxy.set(Self.conditions(isTowardsServer, bytes))
                    proxy.set(.forwarding, for: .new)
                    let ids = (0..<5).map { _ in PushID.random() }
                    let failed = await Self.publish(ids, topology, publisher)
                    #expect(failed.isEmpty, "after \(bytes) bytes")
                    var missing = Set(ids)
                    // A message that the broker stored and did not confirm comes twice.
                    while !missing.isEmpty { if let id = try await watching.take().messageID { missing.remove(id) } }
                }
            }
        }
    }

    @Test("A consumer loses no message when its connection breaks", arguments: [true, false], 0..<lanes)
    func consumerLosesNothing(isTowardsServer: Bool, lane: Int) async throws {
        try await withProxiedBroker { direct, proxied, topology, proxy in
            let publisher = try makePublisher(direct, topology)
            let watching = try Watching(proxied, topology, [Subscription(queue: topology.jobQueue(.now), prefetch: 500)])
            try await whileRunning(publisher, watching.consumer) {
                _ = try await watching.connections.first { $0 }
                for bytes in Self.steps(lane) {
                    proxy.set(Self.conditions(isTowardsServer, bytes))
                    proxy.set(.forwarding, for: .new)
                    let ids = (0..<5).map { _ in PushID.random() }
                    let failed = await Self.publish(ids, topology, publisher)
                    #expect(failed.isEmpty)
                    var missing = Set(ids)
                    while !missing.isEmpty { if let id = try await watching.take().messageID { missing.remove(id) } }
                }
            }
        }
    }

    /// - Returns: the outcomes of messages that the broker did not confirm.
    private static func publish(_ ids: [PushID], _ topology: Topology, _ publisher: Publisher) async -> [PublishOutcome] {
        let messages = ids.map { OutgoingMessage.job(topology, id: $0, body: [UInt8](repeating: 7, count: 300)) }
        return await publisher.publish(messages, deadline: nil).filter { !$0.isConfirmed }
    }

    private static func conditions(_ isTowardsServer: Bool, _ bytes: Int) -> LinkConditions {
        let way = LinkConditions.Way.ending(after: bytes, .reset)
        return isTowardsServer ? LinkConditions(toServer: way) : LinkConditions(toClient: way)
    }
}
