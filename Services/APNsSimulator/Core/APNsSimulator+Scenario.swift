/// Bad days: one scenario at a time, from the start or from now on.
extension APNsSimulator {
    /// A scenario under way.
    package struct Performance: Sendable {
        package let scenario: Scenario
        /// UNIX milliseconds.
        package let startedAt: Int64
        /// How often each rule has struck, in the order of the file.
        package let strikes: [(name: String, count: Int64)]
    }

    /// Takes the place of the scenario before. Connections that are open count from now on, and are well again where the earlier scenario
    /// had changed their limits.
    package func play(_ scenario: Scenario) throws(SimulatorError) {
        begin(try run(of: scenario))
    }

    /// Nothing goes wrong any more.
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
