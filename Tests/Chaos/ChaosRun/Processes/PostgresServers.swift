import Foundation
import Synchronization
import TestSupport

/// The run's PostgreSQL: one server, or a primary and two standbys with the settings for three machines
/// (docs/guides/three-nodes.md). Of these, what is committed stands on the primary and on one of the standbys.
final class PostgresServers: Sendable {
    /// The first is the primary in the beginning.
    let all: [PostgresServer]
    /// The primary first; without one that died for good.
    private let living: Mutex<[PostgresServer]>

    /// Makes and starts them.
    /// - Parameters:
    ///   - names: Of one server, or of three, which are the names of their machines too.
    ///   - folder: That of the server with this name.
    ///   - options: Of the first alone.
    init(
        _ names: [String], network: Network?, folder: (String) -> String, options: [String], logs: String, register: ProcessList
    ) async throws {
        let ports = try FreePorts.choose(names.count)
        let hosts = names.map { PostgresServer.address(network?[$0]) }
        all = try names.enumerated().map { number, name in
            let settings = names.count > 1 ? Self.settings(of: name, among: names, hosts, ports).flatMap { ["-c", $0] } : []
            return try PostgresServer(
                name, on: network?[name], port: ports[number], folder: folder(name), options: settings + (number == 0 ? options : []),
                logs: logs, register: register)
        }
        living = Mutex(all)
        try await primary.makePrimary()
        try await start(primary)
        for standby in standbys {
            try await standby.makeStandby(of: primary)
            try await start(standby)
        }
        try await waitUntil("every standby follows the primary") { await everyStandbyFollows() }
    }

    private static func settings(of name: String, among names: [String], _ hosts: [String], _ ports: [Int]) -> [String] {
        let places = "host=\(hosts.joined(separator: ",")) port=\(ports.map { "\($0)" }.joined(separator: ","))"
        return [
            "synchronous_standby_names=ANY 1 (\(names.map { "\"\($0)\"" }.joined(separator: ", ")))",
            "primary_conninfo=\(places) user=postgres target_session_attrs=read-write tcp_user_timeout=3000 application_name=\(name)",
            "wal_keep_size=2GB", "max_locks_per_transaction=256", "wal_log_hints=on", "wal_sender_timeout=10s", "wal_receiver_timeout=10s",
            "wal_retrieve_retry_interval=1s",
        ]
    }

    private func start(_ server: PostgresServer) async throws {
        try server.program.start()
        try await waitUntil("\(server.name) serves", server.program) { await server.isReady() }
    }

    /// The one that takes writes.
    var primary: PostgresServer { living.withLock { $0[0] } }
    var standbys: [PostgresServer] { living.withLock { Array($0.dropFirst()) } }

    /// Whether each standby receives what the primary writes.
    func everyStandbyFollows() async -> Bool {
        let (primary, standbys) = (primary, standbys)
        if standbys.isEmpty { return true }
        let count = try? await primary.query("SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming'")
        return count?.trimmingCharacters(in: .whitespacesAndNewlines) == "\(standbys.count)"
    }

    /// As the page about three nodes says: the primary is off, the standby that has more takes over, and the other one finds it.
    func failOver() async throws {
        let (lost, standbys) = (primary, standbys)
        await lost.program.stop(SIGKILL)
        // Until then they may still write received commits.
        for standby in standbys {
            try await waitUntil("\(standby.name) has lost its primary", standby.program) { await !standby.receives() }
        }
        var chosen: (server: PostgresServer, position: Int64)?
        for standby in standbys {
            let position = try await standby.received()
            if position > chosen?.position ?? -1 { chosen = (standby, position) }
        }
        guard let chosen = chosen?.server else { throw ChaosError("there is no standby") }
        say("    \(chosen.name) takes over")
        try await chosen.promote()
        living.withLock { $0 = [chosen] + standbys.filter { $0 !== chosen } }
    }

    func stop() async { for server in all.reversed() { await server.stop() } }
}
