import ChaosLedger
import SystemIO
import TestSupport

/// Load beyond the capacity of the platform.
extension FaultInjector {
    /// Enough clients of each token service to keep it busy.
    private static let clients = 64
    /// More than a token service works on at once, so that some of them are shed, and fewer than it accepts (HTTP_MAX_CONNECTIONS).
    private static let connections = 800
    private static let times = 3.0
    private static let target = "client>token-service"

    /// Three times the measured capacity. A refused client does not come back; another one takes its place.
    func overload(seconds: Double, _ random: SeededGenerator) async throws {
        var random = random
        let flood = try makeFlood()
        // A warm-up, so that the measurement contains no one-time costs such as connections and caches.
        _ = try await flood.run(.closed(clients: Self.clients), for: .seconds(3), seed: random.next())
        var measuring = begin(.saturation, Self.target, detail: "\(Self.clients) clients of each")
        let saturated = try await flood.run(.closed(clients: Self.clients), for: .seconds(20), seed: random.next())
        end(&measuring, of: saturated)
        let capacity = saturated.perSecond
        guard capacity >= 1 else { throw ChaosError("nothing was accepted, though nothing was broken") }
        say("    saturated: \(Int(capacity)) accepted a second")
        var record = begin(.overload, Self.target, detail: "\(Int(Self.times * capacity)) a second")
        let overloaded = try await flood.run(
            .open(perSecond: Self.times * capacity, connections: Self.connections), for: .seconds(seconds), seed: random.next())
        end(&record, of: overloaded)
        say("    overloaded: \(Int(overloaded.perSecond)) accepted a second")
        try await recover(&record) { await everythingIsReady() }
        // Ordinary clients go on meanwhile. After five seconds the platform must refuse none of them.
        try await Task.sleep(for: .seconds(15))
    }

    private func makeFlood() throws -> Flood {
        let (client, settings) = (load.client, platform.settings)
        let services = try platform.tokenServices.map { service in
            Flood.Service(name: service.program.name, address: try SocketAddress.resolve(host: "127.0.0.1", port: service.port)[0])
        }
        let users = (0..<settings.size.usersPerApp).map(LoadGenerator.user)
        return Flood(
            services: services, requests: FloodRequests(apps: client.apps, users: users, seed: settings.seed), ledgers: client.ledgers,
            tally: client.tally)
    }

    private func end(_ record: inout FaultRecord, of flood: Flood.Outcome) {
        (record.beganAt, record.endedAt) = (flood.began, flood.ended)
        ledgers.note(record)
    }
}
