import Foundation
import RabbitMQ
import Synchronization
import TestSupport

/// The run's own RabbitMQ (RELIABILITY.md section 5.2b): its node name, ports, port mapper and folder are its own.
final class BrokerServer: Sendable {
    private static let programs = "/usr/lib/rabbitmq/bin"

    let port: Int
    /// What its clients are to use: with TLS where it has certificates.
    let clientPort: Int
    private let certificates: ServerCertificates?
    private let folder: String
    private let environment: [String: String]
    private let register: ProcessList
    private let lastMachine = Atomic<Int32>(0)
    private let mapper: OwnedProgram
    let program: OwnedProgram

    /// - Parameter isSmall: `mnesia` in its folder is a small disk.
    init(folder: String, logs: String, isSmall: Bool, certificates: ServerCertificates?, register: ProcessList) throws {
        let ports = try FreePorts.choose(4)
        (port, self.folder, self.register) = (ports[0], folder, register)
        (clientPort, self.certificates) = (certificates == nil ? ports[0] : ports[3], certificates)
        try FileManager.default.createDirectory(atPath: "\(folder)/log", withIntermediateDirectories: true)
        try Data("[].".utf8).write(to: URL(filePath: "\(folder)/plugins"))
        let small = isSmall ? "raft.wal_max_size_bytes = 16777216\n" : ""
        let tls = certificates.map { Self.tls($0, port: ports[3]) } ?? ""
        try Data((small + tls).utf8).write(to: URL(filePath: "\(folder)/rabbitmq.conf"))
        environment = [
            "HOME": folder, "LANG": "C.UTF-8", "RABBITMQ_NODENAME": "chaos\(ports[0])@localhost", "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODE_PORT": "\(ports[0])", "RABBITMQ_DIST_PORT": "\(ports[1])", "ERL_EPMD_PORT": "\(ports[2])",
            "ERL_EPMD_ADDRESS": "127.0.0.1", "RABBITMQ_MNESIA_BASE": "\(folder)/mnesia", "RABBITMQ_LOG_BASE": "\(folder)/log",
            "RABBITMQ_ENABLED_PLUGINS_FILE": "\(folder)/plugins", "RABBITMQ_CONFIG_FILE": "\(folder)/rabbitmq.conf",
            "RABBITMQ_CONF_ENV_FILE": "\(folder)/none", "RABBITMQ_PID_FILE": "\(folder)/pid",
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "+S 2:2 +sbwt none -kernel inet_dist_use_interface {127,0,0,1}",
        ]
        // Its own port mapper first: one that the broker starts would outlive it.
        mapper = try OwnedProgram(
            "epmd", "/usr/bin/epmd", ["-address", "127.0.0.1", "-port", "\(ports[2])"], environment: environment, folder: logs,
            register: register)
        program = try OwnedProgram(
            "rabbitmq", "\(Self.programs)/rabbitmq-server", environment: environment, folder: logs, register: register)
    }

    private static func tls(_ certificates: ServerCertificates, port: Int) -> String {
        """
        listeners.ssl.default = 127.0.0.1:\(port)
        ssl_options.cacertfile = \(certificates.authority)
        ssl_options.certfile = \(certificates.certificate)
        ssl_options.keyfile = \(certificates.key)
        ssl_options.verify = verify_none

        """
    }

    /// Past every proxy, for whoever watches.
    var uri: String { "amqp://guest:guest@127.0.0.1:\(port)/" }

    /// What a service is told, with a proxy's port.
    func settings(through port: Int) -> [String: String] {
        guard let certificates else { return ["RABBITMQ_URL": "amqp://guest:guest@127.0.0.1:\(port)/"] }
        return ["RABBITMQ_URL": "amqps://guest:guest@127.0.0.1:\(port)/", "RABBITMQ_CA_FILE": certificates.authority]
    }

    func start() throws {
        try mapper.start()
        try program.start()
    }

    /// At once: whoever has something in it is gone already.
    func stop() async {
        // The virtual machine is a child of the script that was started: without it the script ends too.
        program.abandon()
        if let id = processID { kill(id, SIGKILL) }
        await program.stop(SIGKILL, patience: .seconds(5))
        await mapper.stop(SIGKILL)
    }

    /// Of the Erlang machine; nil while it is dead.
    var processID: Int32? {
        guard let text = try? String(contentsOfFile: "\(folder)/pid", encoding: .utf8), let id = Int32(text.filter(\.isNumber)), id > 1,
            (try? String(contentsOfFile: "/proc/\(id)/comm", encoding: .utf8))?.hasPrefix("beam") == true
        else { return nil }
        // The script that started it has another id.
        if lastMachine.exchange(id, ordering: .relaxed) != id { register.add("rabbitmq", id) }
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

    /// Whether its queues live and write, too: where its log had no room they are dead, and the node goes on as if nothing were (3.10:
    /// `ra_log_wal`, `enospc`). Nothing is taken from a queue of jobs: what comes back often enough is dead-lettered.
    func worksAgain() async -> Bool {
        let uri = uri
        do {
            let states = try await control(["list_queues", "state", "--silent", "--no-table-headers"]).split(separator: "\n")
            guard !states.isEmpty, states.allSatisfy({ $0 == "running" }) else { return false }
            return try await onOwnThread {
                let connection = try RabbitMQConnection.open(RabbitMQConfiguration(uri: uri, connectionName: "chaos"))
                defer { connection.close() }
                try connection.limitUnacknowledged(1)
                try connection.consume(queue: "push.dead", consumer: 0)
                try connection.consume(queue: "push.control", consumer: 1, arguments: ["x-stream-offset": "next"])
                return self.processID != nil
            }
        } catch { return false }  // whatever the reason: not yet
    }

    /// Runs `rabbitmqctl`.
    @discardableResult
    func control(_ arguments: [String]) async throws -> String {
        try await Tool.run("\(Self.programs)/rabbitmqctl", arguments, environment: environment)
    }
}
