import Broker
import ChaosLedger
import PushModel
import TestSupport

/// One process inside RabbitMQ stands still, while its node, its connections and everything else in it go on. Only with three nodes.
extension FaultInjector {
    /// The queues that may stand still, and the lane whose jobs go through each.
    private static let queues: [(name: String, lane: Lane?)] = {
        let topology = Topology()
        return [
            (topology.retryQueue(.now, .fiveSeconds), nil), (topology.deadQueue, nil), (topology.jobQueue(.bulk), .bulk),
            (topology.jobQueue(.soon), .soon), (topology.tokenServiceOutcomesQueue, nil), (topology.waitingOutcomesQueue, nil),
        ]
    }()

    /// No other member becomes the leader, because the node and the process live.
    func suspendQueue(seconds: Double, _ random: inout SeededGenerator) async throws {
        guard platform.network != nil, let queue = Self.queues.randomElement(using: &random) else {
            throw ChaosError("this fault needs the scenario cluster")
        }
        var record = begin(.queueStandsStill, queue.name, lane: queue.lane)
        let leader = try await platform.broker.suspendLeader(of: queue.name)
        record.detail = "its leader \(leader), for \(Int(seconds)) s"
        try await Task.sleep(for: .seconds(seconds))
        try await platform.broker.resume(leader)
        try await heal(&record)
    }

    /// Of a node that a dispatcher reads the stream from, if there is one, because the others do not notice. Never of the stream's leader:
    /// without it nothing can be proved, so nothing may be sent.
    func suspendReplica(seconds: Double, _ random: inout SeededGenerator) async throws {
        guard platform.network != nil else { throw ChaosError("this fault needs the scenario cluster") }
        var followers: [(node: BrokerServer, readers: Int)] = []
        for node in platform.brokers {
            if let readers = try await node.readersOfReplica() { followers.append((node, readers)) }
        }
        let read = followers.filter { $0.readers > 0 }
        guard let (node, readers) = (read.isEmpty ? followers : read).randomElement(using: &random) else {
            throw ChaosError("no node has a follower of the control stream")
        }
        var record = begin(
            .replicaStandsStill, node.name, detail: "of the control stream, which \(readers) clients read there, for \(Int(seconds)) s")
        try await node.suspendReplica()
        try await Task.sleep(for: .seconds(seconds))
        try await node.resumeReplica()
        try await heal(&record)
    }
}
