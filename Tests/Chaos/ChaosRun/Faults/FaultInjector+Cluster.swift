import ChaosLedger
import Glibc

/// The loss of a machine, and its separation from others. Only where every program has a machine of its own.
extension FaultInjector {
    private func network() throws -> Network {
        guard let network = platform.network else { throw ChaosError("this fault needs the scenario cluster") }
        return network
    }

    private func machine(of node: BrokerServer) throws -> Machine {
        guard let machine = node.machine else { throw ChaosError("this fault needs the scenario cluster") }
        return machine
    }

    /// Records the end, and waits until the nodes have their replicas back and every service is ready. With an earlier next fault, two of
    /// three replicas would be away.
    ///
    /// RabbitMQ 3.10 on Erlang 25 sometimes hangs in its start after a partition (`rabbit_node_monitor`, "Faking nodedown/nodeup"). As in
    /// the runbook, a node that is not back after a minute is started again.
    func heal(_ record: inout FaultRecord) async throws {
        end(&record)
        let limit = ContinuousClock.now + .seconds(60)
        var restarts: [String: FaultRecord] = [:]
        try await recover(&record, within: .seconds(240)) {
            for node in platform.brokers where !(await node.hasReplicaOfControlStream()) {
                if .now > limit, restarts[node.name] == nil {
                    restarts[node.name] = begin(.kill, node.name, process: node.signal(SIGKILL), detail: "it was not back after a minute")
                }
                return false
            }
            guard await everythingIsReady() else { return false }
            return await everyQueueIsWhole(orRepairedAfter: limit)
        }
        for var restart in restarts.values {
            end(&restart)
            restart.recoveredAt = now()
            ledgers.note(restart)
        }
    }

    /// Whether each queue can lose any one node.
    func everyQueueIsWhole(orRepairedAfter limit: ContinuousClock.Instant) async -> Bool {
        let isOnline = try? await platform.brokers[0].control(
            ["eval", "rabbit_upgrade_preparation:await_online_quorum_plus_one(1000)."])
        if isOnline?.contains("true") == true { return true }
        if .now > limit { await replaceDeadMembers() }
        return false
    }

    /// As in the runbook: a queue's member that cannot read its own log ends at every start (RabbitMQ 4.0, after a full disk). A new member
    /// takes everything from the leader.
    private func replaceDeadMembers() async {
        for queue in (try? await platform.brokers[0].queueMembers()) ?? [] {
            for member in queue.members where !queue.online.contains(member) {
                do {
                    try await platform.brokers[0].queues(["delete_member", "--vhost", "/", queue.name, member])
                    try await platform.brokers[0].queues(["add_member", "--vhost", "/", queue.name, member])
                    say("    replaced the member of \(queue.name) on \(member)")
                } catch { say("    could not replace the member of \(queue.name) on \(member): \(error)") }
            }
        }
    }

    // MARK: RabbitMQ

    /// - Parameter seconds: The time until its supervisor starts it again.
    func killNode(_ node: BrokerServer, awayFor seconds: Double) async throws {
        let starts = node.program.starts
        var record = begin(.kill, node.name, process: node.processID)
        if seconds > 0 { node.program.abandon() }
        _ = node.signal(SIGKILL)
        if seconds > 0 {
            try await Task.sleep(for: .seconds(seconds))
            try node.program.start()
        }
        try await waitUntil("\(node.name) is gone", within: .seconds(60)) { node.program.starts > starts }
        try await heal(&record)
    }

    func freezeNode(_ node: BrokerServer, seconds: Double) async throws {
        var record = begin(.freeze, node.name, process: node.signal(SIGSTOP))
        try await Task.sleep(for: .seconds(seconds))
        _ = node.signal(SIGCONT)
        try await waitUntil("\(node.name) serves again", within: .seconds(60)) { await node.isReady() }
        try await restartIfPartitioned(node)
        try await heal(&record)
    }

    /// As in the runbook: a node that was frozen does not notice that the others went on without it, and `pause_minority` does nothing.
    private func restartIfPartitioned(_ node: BrokerServer) async throws {
        for other in platform.brokers {
            guard try await other.control(["eval", "rabbit_node_monitor:partitions()."]).contains("rabbit@") else { continue }
            try await node.control(["stop_app"])
            try await node.control(["start_app"])
            return
        }
    }

    func cutOff(_ node: BrokerServer, seconds: Double) async throws {
        try await cutOff(try machine(of: node), seconds: seconds)
    }

    /// Its clients still reach it. It is the minority, so it must notice and stop serving.
    func separate(_ node: BrokerServer, seconds: Double) async throws {
        let network = try network()
        let (one, others) = (try machine(of: node), try platform.brokers.filter { $0 !== node }.map(machine(of:)))
        var record = begin(.blackHole, "rabbitmq>rabbitmq", detail: "\(node.name) from the other nodes")
        for other in others { try await network.separate(one, other) }
        try await Task.sleep(for: .seconds(seconds))
        for other in others { try await network.join(one, other) }
        try await heal(&record)
    }

    /// Upgrades like an operator: stops a node when all are there, and the next one when it is back.
    func restartNodes() async throws {
        for node in platform.brokers {
            let starts = node.program.starts
            var record = begin(.stop, node.name, process: node.processID)
            try await node.control(["stop"])
            try await waitUntil("\(node.name) is gone", within: .seconds(60)) { node.program.starts > starts }
            try await heal(&record)
        }
    }

    // MARK: Services and PostgreSQL

    func cutOff(_ service: Platform.Service, seconds: Double) async throws {
        guard let machine = service.machine else { throw ChaosError("this fault needs the scenario cluster") }
        try await cutOff(machine, seconds: seconds)
    }

    private func cutOff(_ machine: Machine, seconds: Double) async throws {
        let network = try network()
        var record = begin(.cut, machine.name)
        try await network.setCable(of: machine, isIn: false)
        try await Task.sleep(for: .seconds(seconds))
        try await network.setCable(of: machine, isIn: true)
        try await heal(&record)
    }

    func separate(_ service: Platform.Service, from node: BrokerServer, seconds: Double) async throws {
        let network = try network()
        guard let one = service.machine else { throw ChaosError("this fault needs the scenario cluster") }
        let other = try machine(of: node)
        let kind = one.name.hasPrefix("dispatcher") ? "dispatcher" : "token-service"
        var record = begin(.blackHole, "\(kind)>rabbitmq", detail: "\(one.name) from \(node.name)")
        try await network.separate(one, other)
        try await Task.sleep(for: .seconds(seconds))
        try await network.join(one, other)
        try await heal(&record)
    }

    /// Meanwhile commits are on the primary and the other standby.
    func cut(_ standby: PostgresServer, seconds: Double) async throws {
        let network = try network()
        guard let one = platform.database.machine, let other = standby.machine else {
            throw ChaosError("this fault needs the scenario cluster")
        }
        var record = begin(.blackHole, "postgres>standby", detail: "the primary from \(standby.name)")
        try await network.separate(one, other)
        try await Task.sleep(for: .seconds(seconds))
        try await network.join(one, other)
        end(&record)
        try await recover(&record) { await databasesAreReady() }
    }
}
