import ChaosLedger
import TestSupport

/// Faults of the links between processes.
extension FaultInjector {
    /// As the ledger names a link: both ends without their numbers.
    private static func ledgerName(_ link: String) -> String {
        let ends = link.split(separator: ">").map { end in end.filter { !$0.isNumber } }.map { $0.hasSuffix("-") ? $0.dropLast() : $0[...] }
        guard ends.count == 2 else { return link }
        return "\(ends[0])>\(ends[1].hasPrefix("apns") ? "apns" : ends[1])"
    }

    private func drawLink(_ random: inout SeededGenerator) throws -> (name: String, proxy: FaultProxy) {
        let names = platform.links.names { !$0.contains(">postgres-") }
        guard let name = names.randomElement(using: &random), let proxy = platform.links[name] else { throw ChaosError("there is no link") }
        return (name, proxy)
    }

    func cutLink(_ random: inout SeededGenerator) async throws {
        let (name, proxy) = try drawLink(&random)
        var record = begin(.reset, Self.ledgerName(name), detail: name)
        proxy.cut()
        end(&record)
        try await recover(&record) { await everythingIsReady() }
    }

    static let slow = LinkConditions(bothWays: .delayed(by: .milliseconds(50), jitter: .milliseconds(200)))
    static let narrow = LinkConditions(bothWays: .limited(to: 64 << 10))
    static let sliced = LinkConditions(bothWays: .sliced(7))

    func disturbLink(
        _ conditions: LinkConditions, _ kind: FaultRecord.Kind, seconds: Double, _ random: inout SeededGenerator
    ) async throws {
        let (name, proxy) = try drawLink(&random)
        var record = begin(kind, Self.ledgerName(name), detail: name)
        proxy.set(conditions)
        if conditions.refusesNew { proxy.cut() }
        try await Task.sleep(for: .seconds(seconds))
        proxy.set(.forwarding)
        end(&record)
        try await recover(&record) { await everythingIsReady() }
    }

    func deafenLink(seconds: Double, _ random: inout SeededGenerator) async throws {
        try await disturbLink(random.chance(0.5) ? .deafClient : .deafServer, .blackHole, seconds: seconds, &random)
    }

    func loseLink(_ random: inout SeededGenerator) async throws {
        let (name, proxy) = try drawLink(&random)
        var record = begin(.halfOpen, Self.ledgerName(name), detail: name)
        proxy.lose(.server)
        try await Task.sleep(for: .seconds(Double.random(in: 5...15, using: &random)))
        proxy.set(.forwarding)
        end(&record)
        try await recover(&record) { await everythingIsReady() }
    }
}
