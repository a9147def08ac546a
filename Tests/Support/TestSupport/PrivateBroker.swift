import Foundation
import PushModel
import SystemIO

/// A RabbitMQ of one test suite, which may freeze it, starve it and kill it. Starts in about ten seconds; has its
/// own node name, ports, port mapper and folder, and ends with ``stop()`` by its process ids.
package final class PrivateBroker: Sendable {
    package struct Failure: Error, CustomStringConvertible {
        package let description: String
    }

    package let folder: String
    /// Of plain AMQP, on 127.0.0.1.
    package let port: Int
    /// Of AMQP over TLS, on 127.0.0.1; the certificate is for `localhost` and 127.0.0.1.
    package let tlsPort: Int
    /// PEM file of the authority that signed the broker's certificate.
    package var authorityFile: String { "\(folder)/ca.pem" }
    private let environment: [String: String]
    private let mapper: ChildProcess
    private let server: ChildProcess

    /// The user is `guest` with password `guest`.
    package var uri: String { "amqp://guest:guest@127.0.0.1:\(port)/" }

    /// Starts the broker and waits until it serves.
    package static func start() async throws -> PrivateBroker {
        let broker = try await PrivateBroker()
        do {
            try await broker.control("wait", "\(broker.folder)/pid", "--timeout", "240")
            try await broker.control("await_startup")
        } catch {
            await broker.stop()
            throw error
        }
        return broker
    }

    private init() async throws {
        let name = "push-\(PushID.random().description.prefix(8))"
        folder = FileManager.default.temporaryDirectory.path + "/" + name
        let ports = try FreePorts.choose(4)
        (port, tlsPort) = (ports[0], ports[1])
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        try await Self.makeCertificates(in: folder)
        try """
        listeners.ssl.default = 127.0.0.1:\(ports[1])
        ssl_options.cacertfile = \(folder)/ca.pem
        ssl_options.certfile = \(folder)/server.pem
        ssl_options.keyfile = \(folder)/server.key
        ssl_options.verify = verify_none
        """.write(toFile: "\(folder)/rabbitmq.conf", atomically: true, encoding: .utf8)
        try "[].".write(toFile: "\(folder)/plugins", atomically: true, encoding: .utf8)
        environment = [
            "PATH": "/usr/bin:/bin", "HOME": folder, "LANG": "C.UTF-8", "RABBITMQ_NODENAME": "\(name)@localhost",
            "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1", "RABBITMQ_NODE_PORT": "\(ports[0])", "RABBITMQ_DIST_PORT": "\(ports[2])",
            "ERL_EPMD_PORT": "\(ports[3])", "ERL_EPMD_ADDRESS": "127.0.0.1", "RABBITMQ_MNESIA_BASE": "\(folder)/mnesia",
            "RABBITMQ_LOG_BASE": "\(folder)/log", "RABBITMQ_ENABLED_PLUGINS_FILE": "\(folder)/plugins",
            "RABBITMQ_CONFIG_FILE": "\(folder)/rabbitmq.conf", "RABBITMQ_CONF_ENV_FILE": "\(folder)/none",
            "RABBITMQ_PID_FILE": "\(folder)/pid",
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "+S 1:1 +sbwt none",
        ]
        // Start its own port mapper first, because one that the broker starts would outlive it.
        mapper = try ChildProcess(
            ServerPrograms.chosen.portMapper(["-address", "127.0.0.1", "-port", "\(ports[3])"]), environment, log: "\(folder)/epmd.log")
        do {
            server = try ChildProcess(ServerPrograms.chosen.rabbitMQ("rabbitmq-server"), environment, log: "\(folder)/server.log")
        } catch {
            await mapper.end()
            throw error
        }
    }

    /// Runs `rabbitmqctl` and returns what it printed.
    @discardableResult
    package func control(_ arguments: String...) async throws -> String {
        let log = "\(folder)/control-\(PushID.random()).log"
        let status = try await ChildProcess(ServerPrograms.chosen.rabbitMQ("rabbitmqctl", arguments), environment, log: log).exit()
        let output = try String(contentsOfFile: log, encoding: .utf8)
        guard status == 0 else { throw Failure(description: "rabbitmqctl \(arguments.joined(separator: " ")): \(output)") }
        return output
    }

    /// Sends SIGSTOP: the broker's sockets stay open, and nothing answers.
    package func freeze() throws { try signal(SIGSTOP) }

    /// Sends SIGCONT.
    package func thaw() throws { try signal(SIGCONT) }

    /// Ends its processes in any state and removes its folder.
    package func stop() async {
        // The virtual machine is a child of the started script, which ends with it.
        try? signal(SIGKILL)
        await server.end()
        await mapper.end()
        try? FileManager.default.removeItem(atPath: folder)
    }

    private func signal(_ number: Int32) throws {
        let text = try String(contentsOfFile: "\(folder)/pid", encoding: .utf8)
        guard let pid = pid_t(text.filter(\.isNumber)), pid > 1 else { throw Failure(description: "the broker wrote no process id") }
        kill(pid, number)
    }

    private static func makeCertificates(in folder: String) async throws {
        try """
        [ext]
        subjectAltName = DNS:localhost, IP:127.0.0.1
        """.write(toFile: "\(folder)/ext", atomically: true, encoding: .utf8)
        let steps = [
            [
                "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj",
                "/CN=test authority",
                "-keyout", "\(folder)/ca.key", "-out", "\(folder)/ca.pem",
            ],
            [
                "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=test broker",
                "-keyout", "\(folder)/server.key", "-out", "\(folder)/server.csr",
            ],
            [
                "x509", "-req", "-in", "\(folder)/server.csr", "-CA", "\(folder)/ca.pem", "-CAkey", "\(folder)/ca.key", "-CAcreateserial",
                "-days", "2", "-extfile", "\(folder)/ext", "-extensions", "ext", "-out", "\(folder)/server.pem",
            ],
        ]
        for step in steps {
            let status = try await ChildProcess("/usr/bin/openssl", step, ["PATH": "/usr/bin:/bin"], log: "\(folder)/openssl.log").exit()
            guard status == 0 else { throw Failure(description: "openssl \(step[0]) failed") }
        }
    }
}
