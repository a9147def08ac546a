import ChaosLedger

/// Clocks that are set, and set right again.
extension FaultInjector {
    /// More than the hour after which a provider token is too old for APNs, in either direction.
    private static let step: Int64 = 61 * 60

    /// The other clocks are right. The wrong clock of one process may do harm only while it is wrong.
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
