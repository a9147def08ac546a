import Foundation
import TestSupport

/// The run's own PostgreSQL: fsync and synchronous commits are on. With a second one it is the primary of two: what is committed stands on both.
final class PostgresServer: Sendable {
    static let standbyName = "standby"

    let port: Int
    let folder: String
    private let programs: String
    let program: OwnedProgram

    /// Makes the data folder; does not start it.
    init(name: String, folder: String, hasStandby: Bool, options: [String] = [], logs: String, register: ProcessList) async throws {
        port = try FreePorts.choose(1)[0]
        self.folder = folder
        programs = try Self.findPrograms()
        program = try Self.program(
            name, programs, folder, port, options + (hasStandby ? ["-c", "synchronous_standby_names=\(Self.standbyName)"] : []), logs,
            register)
        try await Self.makeFolder(folder)
        try await Self.asAccount("\(programs)/initdb", ["-D", folder, "-U", "postgres", "--auth=trust", "-E", "UTF8", "--locale=C"])
    }

    /// A standby that follows `primary`, which must be running.
    init(following primary: PostgresServer, folder: String, logs: String, register: ProcessList) async throws {
        port = try FreePorts.choose(1)[0]
        self.folder = folder
        programs = primary.programs
        program = try Self.program("postgres-2", programs, folder, port, [], logs, register)
        try await Self.makeFolder(folder)
        try await Self.asAccount(
            "\(programs)/pg_basebackup",
            [
                "-D", folder, "-R", "-X", "stream", "-c", "fast", "-d",
                "host=127.0.0.1 port=\(primary.port) user=postgres application_name=\(Self.standbyName)",
            ])
    }

    private static func program(
        _ name: String, _ programs: String, _ folder: String, _ port: Int, _ options: [String], _ logs: String, _ register: ProcessList
    ) throws -> OwnedProgram {
        let command = account(
            "\(programs)/postgres", ["-D", folder, "-p", "\(port)", "-h", "127.0.0.1", "-k", "", "-c", "max_connections=200"] + options)
        return try OwnedProgram(name, command[0], Array(command.dropFirst()), folder: logs, register: register)
    }

    private static func findPrograms() throws -> String {
        let versions = try FileManager.default.contentsOfDirectory(atPath: "/usr/lib/postgresql").compactMap { Int($0) }
        guard let newest = versions.max() else { throw ChaosError("PostgreSQL's programs are not in /usr/lib/postgresql") }
        return "/usr/lib/postgresql/\(newest)/bin"
    }

    /// PostgreSQL refuses to run as root.
    private static func account(_ program: String, _ arguments: [String]) -> [String] {
        guard geteuid() == 0 else { return [program] + arguments }
        return ["/usr/bin/setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups", program] + arguments
    }

    private static func asAccount(_ program: String, _ arguments: [String]) async throws {
        let command = account(program, arguments)
        try await Tool.run(command[0], Array(command.dropFirst()))
    }

    private static func makeFolder(_ folder: String) async throws {
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        if geteuid() == 0 {
            try await Tool.run("/usr/bin/chown", ["postgres", folder])
            try await Tool.run("/usr/bin/chmod", ["700", folder])
        }
    }

    var url: String { "postgresql://postgres@127.0.0.1:\(port)/postgres" }

    func isReady() async -> Bool {
        (try? await Tool.run("\(programs)/pg_isready", ["-q", "-h", "127.0.0.1", "-p", "\(port)", "-U", "postgres", "-t", "2"])) != nil
    }

    /// Runs one statement as an operator, past every proxy.
    @discardableResult
    func query(_ sql: String) async throws -> String {
        try await Tool.run("/usr/bin/psql", ["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-d", url, "-c", sql])
    }

    /// A standby becomes a primary.
    func promote() async throws { try await Self.asAccount("\(programs)/pg_ctl", ["promote", "-w", "-t", "30", "-D", folder]) }

    /// PostgreSQL's fast shutdown.
    func stop() async { await program.stop(SIGINT, patience: .seconds(15)) }
}
