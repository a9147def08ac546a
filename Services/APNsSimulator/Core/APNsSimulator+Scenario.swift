/// Scenarios of faults: one at a time, from the start or from now on.
extension APNsSimulator {
    /// A running scenario.
    package struct Performance: Sendable {
        package let scenario: Scenario
        /// UNIX milliseconds.
        package let startedAt: Int64
        /// How often each rule has applied, in the order of the file.
        package let strikes: [(name: String, count: Int64)]
    }

    /// Replaces the scenario before. Open connections count from now on, and get back the limits that the earlier scenario had changed.
    package func play(_ scenario: Scenario) throws(SimulatorError) {
        begin(try run(of: scenario))
    }

    /// No more faults from now on.
    package func playNothing() throws(SimulatorError) {
        try play(.calm)
    }

    package var performance: Performance? {
        service.scenario.map { Performance(scenario: $0.scenario, startedAt: $0.startedAt, strikes: $0.strikes) }
    }

    func run(of scenario: Scenario) throws(SimulatorError) -> ScenarioRun {
        try ScenarioRun(scenario, configuration: configuration, now: configuration.clock())
    }
}
