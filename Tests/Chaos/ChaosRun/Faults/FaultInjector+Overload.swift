import ChaosLedger

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
        let flood = try Flood(load.client, platform, platform.settings)
        // A warm-up, so that the measurement contains no one-time costs such as connections and caches.
        _ = try await flood.run(.closed(clients: Self.clients), for: .seconds(3), random: random.branch(1))
        var measuring = begin(.saturation, Self.target, detail: "\(Self.clients) clients of each")
        let saturated = try await flood.run(.closed(clients: Self.clients), for: .seconds(20), random: random.branch(2))
        end(&measuring, of: saturated)
        let capacity = saturated.perSecond
        guard capacity >= 1 else { throw ChaosError("nothing was accepted, though nothing was broken") }
        say("    saturated: \(Int(capacity)) accepted a second")
        var record = begin(.overload, Self.target, detail: "\(Int(Self.times * capacity)) a second")
        let overloaded = try await flood.run(
            .open(perSecond: Self.times * capacity, connections: Self.connections), for: .seconds(seconds), random: random.branch(3))
        end(&record, of: overloaded)
        say("    overloaded: \(Int(overloaded.perSecond)) accepted a second")
        try await recover(&record) { await everythingIsReady() }
        // Ordinary clients go on meanwhile. After five seconds the platform must refuse none of them.
        try await Task.sleep(for: .seconds(15))
    }

    private func end(_ record: inout FaultRecord, of flood: Flood.Outcome) {
        (record.beganAt, record.endedAt) = (flood.began, flood.ended)
        ledgers.note(record)
    }
}
