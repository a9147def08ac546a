import Foundation
import TestSupport

/// The run's own PostgreSQL: fsync and synchronous commits are on. With a second one it is the primary of two: what is committed stands on both.
final class PostgresServer: Sendable {
    static let standbyName = "standby"

    let address: String
    let port: Int
    let folder: String
    /// nil: this one.
    let machine: Machine?
    let program: OwnedProgram

    /// Makes the data folder; does not start it.
    init(
        name: String, on machine: Machine? = nil, folder: String, hasStandby: Bool, options: [String] = [], logs: String,
        register: ProcessList
    ) async throws {
        (self.machine, self.folder, address, port) = (machine, folder, Self.address(machine), try FreePorts.choose(1)[0])
        program = try Self.program(
            name, machine, folder, port, options + (hasStandby ? ["-c", "synchronous_standby_names=\(Self.standbyName)"] : []), logs,
            register)
        try await Self.makeFolder(folder)
        try await Self.run("initdb", ["-D", folder, "-U", "postgres", "--auth=trust", "-E", "UTF8", "--locale=C"])
        guard machine != nil else { return }
        let rules = try FileHandle(forWritingTo: URL(filePath: "\(folder)/pg_hba.conf"))
        try rules.seekToEnd()
        try rules.write(contentsOf: Data("host all all samenet trust\nhost replication all samenet trust\n".utf8))
        try rules.close()
    }

    /// A standby that follows `primary`, which must be running.
    init(following primary: PostgresServer, on machine: Machine? = nil, folder: String, logs: String, register: ProcessList) async throws {
        (self.machine, self.folder, address, port) = (machine, folder, Self.address(machine), try FreePorts.choose(1)[0])
        program = try Self.program("postgres-2", machine, folder, port, [], logs, register)
        try await Self.makeFolder(folder)
        try await Self.run(
            "pg_basebackup",
            [
                "-D", folder, "-R", "-X", "stream", "-c", "fast", "-d",
                "host=\(primary.address) port=\(primary.port) user=postgres application_name=\(Self.standbyName)",
            ])
    }

    private static func address(_ machine: Machine?) -> String { machine?.address ?? "127.0.0.1" }

    private static func program(
        _ name: String, _ machine: Machine?, _ folder: String, _ port: Int, _ options: [String], _ logs: String, _ register: ProcessList
    ) throws -> OwnedProgram {
        let command = try ServerPrograms.chosen.postgres(
            "postgres", ["-D", folder, "-p", "\(port)", "-h", address(machine), "-k", "", "-c", "max_connections=200"] + options)
        return try OwnedProgram(name, command, on: machine, folder: logs, register: register)
    }

    private static func run(_ program: String, _ arguments: [String]) async throws {
        try await Tool.run(try ServerPrograms.chosen.postgres(program, arguments))
    }

    private static func makeFolder(_ folder: String) async throws {
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        if geteuid() == 0 {
            try await Tool.run(ServerPrograms.chosen.chown(["postgres", folder]))
            try await Tool.run("/usr/bin/chmod", ["700", folder])
        }
    }

    var url: String { "postgresql://postgres@\(address):\(port)/postgres" }

    func isReady() async -> Bool {
        (try? await Self.run("pg_isready", ["-q", "-h", address, "-p", "\(port)", "-U", "postgres", "-t", "2"])) != nil
    }

    /// Runs one statement as an operator, past every proxy.
    @discardableResult
    func query(_ sql: String) async throws -> String {
        try await Tool.run("/usr/bin/psql", ["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-d", url, "-c", sql])
    }

    /// A standby becomes a primary.
    func promote() async throws { try await Self.run("pg_ctl", ["promote", "-w", "-t", "30", "-D", folder]) }

    /// PostgreSQL's fast shutdown.
    func stop() async { await program.stop(SIGINT, patience: .seconds(15)) }
}
