import Dispatch
import Foundation
import Glibc
import TestServers
import TestSupport

/// A PostgreSQL server of one test, with TLS, its own directory and its own port. It is ended by its process id.
///
/// Unchecked: one thread starts `process`, and later another thread ends it.
final class PrivateServer: @unchecked Sendable {
    let port: UInt16
    /// Holds `ca.pem`, which signed the server's certificate for `localhost`, and `other-ca.pem`.
    let directory: URL
    private let data: URL
    private let process: Process

    /// PostgreSQL refuses to run as root, so root hands it to the user `postgres`.
    private static let isRoot = getuid() == 0

    static func with<R>(_ body: (PrivateServer) async throws -> R) async throws -> R {
        try TestServers.require()
        let directory = FileManager.default.temporaryDirectory.appending(path: "postgres-\(UUID().uuidString.prefix(8))")
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: false)
        let result: R
        do {
            result = try await run({ try PrivateServer(in: directory) }, body)
        } catch {
            try FileManager.default.removeItem(at: directory)
            throw error
        }
        try FileManager.default.removeItem(at: directory)
        return result
    }

    /// Runs `body` with a standby of this server, which ends before this server does.
    func withStandby<R>(_ body: (PrivateServer) async throws -> R) async throws -> R {
        try await Self.run({ try PrivateServer(following: self) }, body)
    }

    private static func run<R>(
        _ make: @escaping @Sendable () throws -> PrivateServer, _ body: (PrivateServer) async throws -> R
    ) async throws -> R {
        let server = try await blocking(make)
        let result: R
        do {
            result = try await body(server)
        } catch {
            await blocking { server.end(SIGINT) }
            throw error
        }
        await blocking { server.end(SIGINT) }
        return result
    }

    /// Waits for programs on its own thread, because the cooperative pool runs other tests.
    private static func blocking<R: Sendable, E: Error>(_ body: @escaping @Sendable () throws(E) -> R) async throws(E) -> R {
        let result: Result<R, E> = await withCheckedContinuation { continuation in
            DispatchQueue(label: "private-server").async { continuation.resume(returning: Result(catching: body)) }
        }
        return try result.get()
    }

    private init(in directory: URL) throws {
        self.directory = directory
        data = directory.appending(path: "data")
        port = try UInt16(FreePorts.choose(1)[0])
        try Self.makeCertificates(in: directory)
        if Self.isRoot {
            let chown = ServerPrograms.chosen.chown(["-R", "postgres", directory.path])
            try Command.run(chown.executable, chown.arguments, in: directory)
        }
        let options = ["-D", data.path, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync"]
        try Self.run("initdb", options, in: directory)
        process = try Self.start(data, port: port, in: directory)
    }

    private init(following primary: PrivateServer) throws {
        directory = primary.directory
        data = directory.appending(path: "standby")
        port = try UInt16(FreePorts.choose(1)[0])
        let options = ["-D", data.path, "-R", "-c", "fast", "--no-sync", "-d", primary.uri("sslmode=disable")]
        try Self.run("pg_basebackup", options, in: directory)
        process = try Self.start(data, port: port, in: directory)
    }

    private static func run(_ program: String, _ arguments: [String], in directory: URL) throws {
        let command = try ServerPrograms.chosen.postgres(program, arguments)
        try Command.run(command.executable, command.arguments, in: directory)
    }

    /// - Parameter parameters: Parameters of libpq, such as `sslmode=disable`.
    func uri(host: String = "localhost", _ parameters: String) -> String { "postgresql://postgres@\(host):\(port)/postgres?\(parameters)" }

    /// Makes a standby the primary.
    func promote() async throws {
        try await Self.blocking { try Self.run("pg_ctl", ["promote", "-w", "-D", self.data.path], in: self.directory) }
    }

    func crash() async { await Self.blocking { self.end(SIGKILL) } }

    /// - Parameter signal: SIGINT is PostgreSQL's fast shutdown.
    private func end(_ signal: Int32) {
        if process.isRunning { kill(process.processIdentifier, signal) }
        process.waitUntilExit()
    }

    private static func start(_ data: URL, port: UInt16, in directory: URL) throws -> Process {
        let settings = [
            "listen_addresses=127.0.0.1", "port=\(port)", "unix_socket_directories=", "fsync=off", "ssl=on", "max_connections=20",
            "ssl_cert_file=\(directory.appending(path: "server.pem").path)", "ssl_key_file=\(directory.appending(path: "server.key").path)",
        ]
        let process = Process()
        let command = try ServerPrograms.chosen.postgres("postgres", ["-D", data.path] + settings.flatMap { ["-c", $0] })
        process.executableURL = URL(filePath: command.executable)
        process.arguments = command.arguments
        process.currentDirectoryURL = directory
        let log = Foundation.Pipe()
        process.standardError = log
        process.standardOutput = FileHandle(forWritingAtPath: "/dev/null")
        try process.run()
        var text = ""
        // A standby is ready to accept read-only connections.
        while text.firstMatch(of: /ready to accept (read-only )?connections/) == nil {
            let data = log.fileHandleForReading.availableData
            guard !data.isEmpty else { throw Command.Failure(description: "postgres did not start: \(text)") }
            text += String(decoding: data, as: UTF8.self)
        }
        // Drains the pipe, because a full pipe would stop the server.
        log.fileHandleForReading.readabilityHandler = { handle in
            if handle.availableData.isEmpty { handle.readabilityHandler = nil }
        }
        return process
    }

    private static func makeCertificates(in directory: URL) throws {
        for name in ["ca", "other-ca"] {
            try openssl(
                "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=\(name) "
                    + "-keyout \(name).key -out \(name).pem",
                directory)
        }
        try openssl(
            "req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=localhost -addext subjectAltName=DNS:localhost "
                + "-keyout server.key -out server.csr", directory)
        try openssl(
            "x509 -req -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -copy_extensions copy -out server.pem", directory)
        try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: directory.appending(path: "server.key").path)
    }

    private static func openssl(_ arguments: String, _ directory: URL) throws {
        try Command.run("/usr/bin/openssl", arguments.split(separator: " ").map(String.init), in: directory)
    }
}
