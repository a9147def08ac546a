import Foundation
import TestSupport

/// A PostgreSQL server of the run, with fsync and synchronous commits.
final class PostgresServer: Sendable {
    let name: String
    let address: String
    let port: Int
    let folder: String
    /// nil: this one.
    let machine: Machine?
    let program: OwnedProgram

    /// ``makePrimary()`` or ``makeStandby(of:)`` makes its data folder; neither starts it.
    init(
        _ name: String, on machine: Machine?, port: Int, folder: String, options: [String], logs: String, register: ProcessList
    ) throws {
        (self.name, self.machine, self.port, self.folder) = (name, machine, port, folder)
        address = Self.address(machine)
        let command = try ServerPrograms.chosen.postgres(
            "postgres", ["-D", folder, "-p", "\(port)", "-h", address, "-k", "", "-c", "max_connections=200"] + options)
        program = try OwnedProgram(name, command, on: machine, folder: logs, register: register)
    }

    static func address(_ machine: Machine?) -> String { machine?.address ?? "127.0.0.1" }

    func makePrimary() async throws {
        try await makeFolder()
        try await Self.run("initdb", ["-D", folder, "-U", "postgres", "--auth=trust", "-E", "UTF8", "--locale=C"])
        guard machine != nil else { return }
        let rules = try FileHandle(forWritingTo: URL(filePath: "\(folder)/pg_hba.conf"))
        try rules.seekToEnd()
        try rules.write(contentsOf: Data("host all all samenet trust\nhost replication all samenet trust\n".utf8))
        try rules.close()
    }

    /// - Parameter primary: It must be running.
    func makeStandby(of primary: PostgresServer) async throws {
        try await makeFolder()
        try await Self.run(
            "pg_basebackup",
            [
                "-D", folder, "-R", "-X", "stream", "-c", "fast", "-d",
                "host=\(primary.address) port=\(primary.port) user=postgres",
            ])
    }

    private static func run(_ program: String, _ arguments: [String]) async throws {
        try await Tool.run(try ServerPrograms.chosen.postgres(program, arguments))
    }

    private func makeFolder() async throws {
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

    /// Whether this standby still receives something from its primary.
    func receives() async -> Bool {
        let count = try? await query("SELECT count(*) FROM pg_stat_wal_receiver")
        return count?.trimmingCharacters(in: .whitespacesAndNewlines) != "0"
    }

    /// How far this standby is, in bytes of WAL.
    func received() async throws -> Int64 {
        let answer = try await query("SELECT pg_wal_lsn_diff(greatest(pg_last_wal_receive_lsn(), pg_last_wal_replay_lsn()), '0/0')")
        guard let position = Int64(answer.trimmingCharacters(in: .whitespacesAndNewlines)) else {
            throw ChaosError("\(name) does not say how far it is: \(answer)")
        }
        return position
    }

    /// A standby becomes a primary.
    func promote() async throws { try await Self.run("pg_ctl", ["promote", "-w", "-t", "30", "-D", folder]) }

    /// PostgreSQL's fast shutdown.
    func stop() async { await program.stop(SIGINT, patience: .seconds(15)) }
}
