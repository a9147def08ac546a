import ChaosLedger

/// Clocks that are set, and set right again.
extension FaultInjector {
    /// More than the hour after which APNs takes a provider token for an old one, in either direction.
    private static let step: Int64 = 61 * 60

    /// The others' clocks are right: what one process thinks of the time must harm nobody for longer than it thinks so.
    func setClock(_ service: Platform.Service, ahead: Bool, seconds: Double) async throws {
        let name = service.program.name
        guard let clock = platform.clocks[name] else { return say("    skipped: the clock of \(name) cannot be set") }
        let step = ahead ? Self.step : -Self.step
        var record = begin(.clock, name, process: service.program.processID)
        record.step = step * 1_000_000
        ledgers.note(record)
        try clock.set(step)
        try await Task.sleep(for: .seconds(seconds))
        try clock.set(0)
        end(&record)
        try await recover(&record) { await everythingIsReady() }
    }
}
