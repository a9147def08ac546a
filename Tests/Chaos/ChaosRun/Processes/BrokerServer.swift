import Foundation
import RabbitMQ
import Synchronization
import TestSupport

/// One RabbitMQ node of the run, with its own node name, ports, port mapper and folder.
final class BrokerServer: Sendable {
    let name: String
    let address: String
    let port: Int
    /// The port for its clients, with TLS if it has certificates.
    let clientPort: Int
    /// nil: this one.
    let machine: Machine?
    private let certificates: ServerCertificates?
    private let folder: String
    private let environment: [String: String]
    private let register: ProcessList
    private let lastMachine = Atomic<Int32>(0)
    private let mapper: OwnedProgram
    let program: OwnedProgram

    /// - Parameters:
    ///   - isSmall: `mnesia` in its folder is a small disk.
    ///   - network: The machine of its name there is its own, and it can join others (``join(_:)``).
    init(
        _ name: String, folder: String, logs: String, isSmall: Bool, certificates: ServerCertificates?, network: Network? = nil,
        register: ProcessList
    ) throws {
        let ports = try FreePorts.choose(4)
        machine = network?[name]
        address = machine?.address ?? "127.0.0.1"
        (self.name, port, self.folder, self.register) = (name, machine == nil ? ports[0] : 5672, folder, register)
        (clientPort, self.certificates) = (certificates == nil ? port : ports[3], certificates)
        try FileManager.default.createDirectory(atPath: "\(folder)/log", withIntermediateDirectories: true)
        try Data("[].".utf8).write(to: URL(filePath: "\(folder)/plugins"))
        let small = isSmall ? "raft.wal_max_size_bytes = 16777216\n" : ""
        let tls = certificates.map { Self.tls($0, port: ports[3]) } ?? ""
        try Data((small + tls + (network == nil ? "" : Self.clusterSettings)).utf8).write(to: URL(filePath: "\(folder)/rabbitmq.conf"))
        var environment = [
            "HOME": folder, "LANG": "C.UTF-8", "RABBITMQ_NODENAME": Self.node(machine, port), "RABBITMQ_NODE_IP_ADDRESS": address,
            "RABBITMQ_NODE_PORT": "\(port)", "RABBITMQ_DIST_PORT": "\(ports[1])", "ERL_EPMD_PORT": "\(machine == nil ? ports[2] : 4369)",
            "ERL_EPMD_ADDRESS": address, "RABBITMQ_MNESIA_BASE": "\(folder)/mnesia", "RABBITMQ_LOG_BASE": "\(folder)/log",
            "RABBITMQ_ENABLED_PLUGINS_FILE": "\(folder)/plugins", "RABBITMQ_CONFIG_FILE": "\(folder)/rabbitmq.conf",
            "RABBITMQ_CONF_ENV_FILE": "\(folder)/none", "RABBITMQ_PID_FILE": "\(folder)/pid",
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS":
                "+S 2:2 +sbwt none -kernel inet_dist_use_interface {\(address.replacing(".", with: ","))}"
                + (network == nil ? "" : Self.clusterArguments),
        ]
        if network != nil {
            environment["RABBITMQ_USE_LONGNAME"] = "true"
            // The nodes of a cluster authenticate with it. Erlang requires that only its owner can read it.
            let cookie = "\(folder)/.erlang.cookie"
            guard FileManager.default.createFile(atPath: cookie, contents: Data("chaos".utf8), attributes: [.posixPermissions: 0o400])
            else { throw ChaosError("\(cookie) cannot be written") }
        }
        self.environment = environment
        // Start its own port mapper first, because one that the broker starts would outlive it.
        mapper = try OwnedProgram(
            "epmd-\(name)", ServerPrograms.chosen.portMapper(["-address", address, "-port", environment["ERL_EPMD_PORT"] ?? ""]),
            on: machine, environment: environment, folder: logs, register: register)
        program = try OwnedProgram(
            name, ServerPrograms.chosen.rabbitMQ("rabbitmq-server"), on: machine, environment: environment, folder: logs,
            register: register)
    }

    /// Shorter timeouts. A dead letter that was in flight when a leader was lost is sent again after these milliseconds
    /// (`rabbit_fifo_dlx_worker`) and not after three minutes. A sender to a node that is cut off waits for a connection for these seconds
    /// (kernel(6)) and not seven. Queues look for silent nodes at this interval and not every 5,000 ms.
    private static let clusterArguments =
        " -rabbit dead_letter_worker_publisher_confirm_timeout 10000 -kernel net_setuptime 1 -aten poll_interval 1000"

    private static func node(_ machine: Machine?, _ port: Int) -> String {
        machine.map { "rabbit@\($0.address)" } ?? "chaos\(port)@localhost"
    }

    /// A node that is alone with its clients must notice that within seconds, and stop.
    private static let clusterSettings = """
        cluster_partition_handling = pause_minority
        net_ticktime = 3
        loopback_users = none

        """

    private static func tls(_ certificates: ServerCertificates, port: Int) -> String {
        """
        listeners.ssl.default = 127.0.0.1:\(port)
        ssl_options.cacertfile = \(certificates.authority)
        ssl_options.certfile = \(certificates.certificate)
        ssl_options.keyfile = \(certificates.key)
        ssl_options.verify = verify_none

        """
    }

    /// The address past every proxy, for observers.
    var uri: String { "amqp://guest:guest@\(address):\(port)/" }

    /// The URI of several nodes, any of which serves.
    static func uri(of nodes: [BrokerServer]) -> String {
        "amqp://guest:guest@\(nodes.map { "\($0.address):\($0.port)" }.joined(separator: ","))/"
    }

    /// The settings of a service, with a proxy's port.
    func settings(through port: Int) -> [String: String] {
        guard let certificates else { return ["RABBITMQ_URL": "amqp://guest:guest@127.0.0.1:\(port)/"] }
        return ["RABBITMQ_URL": "amqps://guest:guest@127.0.0.1:\(port)/", "RABBITMQ_CA_FILE": certificates.authority]
    }

    func start() throws {
        try mapper.start()
        try program.start()
    }

    /// Becomes a node of another's cluster. Both serve, and this one has nothing yet.
    func join(_ other: BrokerServer) async throws {
        try await control(["stop_app"])
        try await control(["join_cluster", Self.node(other.machine, other.port)])
        try await control(["start_app"])
    }

    /// As the page about three nodes says of a lost machine: the others forget the node, and one of its name that has nothing joins them.
    func comeBackEmpty(to other: BrokerServer) async throws {
        await stop()
        let node = Self.node(machine, port)
        try await other.control(["forget_cluster_node", node])
        try await other.queues(["shrink", node])
        let data = "\(folder)/mnesia"
        for entry in try FileManager.default.contentsOfDirectory(atPath: data) {
            try FileManager.default.removeItem(atPath: "\(data)/\(entry)")
        }
        try start()
        try await waitUntil("\(name) serves", program) { await isReady() }
        try await join(other)
        try await other.queues(["grow", node, "all"])
        // What `rabbitmq-streams add_replica` runs. RabbitMQ 3.10 has done it by itself.
        try await other.control(["eval", "rabbit_stream_queue:add_replica(<<\"/\">>, <<\"push.control\">>, '\(node)')."])
    }

    /// Stops it at once, because all its clients have ended already.
    func stop() async {
        // The virtual machine is a child of the started script, which ends with it.
        program.abandon()
        if let id = processID { kill(id, SIGKILL) }
        await program.stop(SIGKILL, patience: .seconds(5))
        await mapper.stop(SIGKILL)
    }

    /// The process id of the Erlang machine; nil while it is dead.
    var processID: Int32? {
        guard let text = try? String(contentsOfFile: "\(folder)/pid", encoding: .utf8), let id = Int32(text.filter(\.isNumber)), id > 1,
            (try? String(contentsOfFile: "/proc/\(id)/comm", encoding: .utf8))?.hasPrefix("beam") == true
        else { return nil }
        // The script that started it has another id.
        if lastMachine.exchange(id, ordering: .relaxed) != id { register.add(name, id) }
        return id
    }

    /// - Returns: the process that got it.
    func signal(_ number: Int32) -> Int32? {
        guard let id = processID else { return nil }
        kill(id, number)
        return id
    }

    /// Whether it serves: an AMQP connection can be made.
    func isReady() async -> Bool {
        let uri = uri
        do {
            return try await onOwnThread {
                let connection = try RabbitMQConnection.open(RabbitMQConfiguration(uri: uri, connectionName: "chaos"))
                connection.close()
                return self.processID != nil
            }
        } catch { return false }  // whatever the reason: not yet
    }

    /// Whether this node serves a reader of the control stream. A replica that is not back yet does not show in a queue.
    func hasReplicaOfControlStream() async -> Bool {
        let uri = uri
        do {
            return try await onOwnThread {
                let connection = try RabbitMQConnection.open(RabbitMQConfiguration(uri: uri, connectionName: "chaos"))
                defer { connection.close() }
                try connection.limitUnacknowledged(1)
                try connection.consume(queue: "push.control", consumer: 0, arguments: ["x-stream-offset": "next"])
                return self.processID != nil
            }
        } catch { return false }  // whatever the reason: not yet
    }

    /// Whether its queues live and write too. If its log had no room, they are dead, and the node goes on regardless (3.10: `ra_log_wal`,
    /// `enospc`). The check takes nothing from a queue of jobs, because a job that comes back often enough is dead-lettered.
    func worksAgain() async -> Bool {
        let uri = uri
        do {
            let states = try await control(["list_queues", "state", "--silent", "--no-table-headers"]).split(separator: "\n")
            guard !states.isEmpty, states.allSatisfy({ $0 == "running" }), await hasReplicaOfControlStream() else { return false }
            return try await onOwnThread {
                let connection = try RabbitMQConnection.open(RabbitMQConfiguration(uri: uri, connectionName: "chaos"))
                defer { connection.close() }
                try connection.limitUnacknowledged(1)
                try connection.consume(queue: "push.dead", consumer: 0)
                return self.processID != nil
            }
        } catch { return false }  // whatever the reason: not yet
    }

    /// A queue that is replicated: the nodes that have a replica, and those where it runs.
    struct QueueMembers: Decodable {
        let name: String
        let members: [String]
        let online: [String]
    }

    func queueMembers() async throws -> [QueueMembers] {
        let list = try await control(["list_queues", "name", "members", "online", "--silent", "--formatter", "json"])
        return try JSONDecoder().decode([QueueMembers].self, from: Data(list.utf8))
    }

    /// Runs `rabbitmq-queues`.
    @discardableResult
    func queues(_ arguments: [String]) async throws -> String {
        try await Tool.run(ServerPrograms.chosen.rabbitMQ("rabbitmq-queues", arguments), on: machine, environment: environment)
    }

    /// Runs `rabbitmqctl`.
    @discardableResult
    func control(_ arguments: [String]) async throws -> String {
        try await Tool.run(ServerPrograms.chosen.rabbitMQ("rabbitmqctl", arguments), on: machine, environment: environment)
    }
}
