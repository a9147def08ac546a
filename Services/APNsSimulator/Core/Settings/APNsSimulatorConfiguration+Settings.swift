package import Configuration
package import Logging
package import Observability

extension APNsSimulatorConfiguration {
    /// Reads every setting of ``SimulatorSetting/all``.
    /// - Throws: `ConfigurationError`, one sentence that names the environment variable.
    package init(_ config: ConfigReader, logger: Logger) throws(ConfigurationError) {
        let keysFile = try config.read(SimulatorSetting.keysFile, logger: logger)
        let keys: [ProviderKey]
        do throws(SimulatorError) {
            keys = try KeysFile.read(keysFile, logger: logger)
        } catch {
            throw SimulatorSetting.keysFile.error(expected: "a file of provider keys (\(error))", given: keysFile)
        }
        self.init(
            certificateFile: try config.read(SimulatorSetting.certificateFile, logger: logger),
            keyFile: try config.read(SimulatorSetting.keyFile, logger: logger), keys: keys)
        host = try config.read(SimulatorSetting.host)
        productionPort = try config.read(SimulatorSetting.productionPort)
        sandboxPort = try config.read(SimulatorSetting.sandboxPort)
        productionManagementPort = try config.read(SimulatorSetting.productionManagementPort)
        sandboxManagementPort = try config.read(SimulatorSetting.sandboxManagementPort)
        controlPort = try config.read(SimulatorSetting.controlPort)
        clientCAFile = try config.read(SimulatorSetting.clientCAFile, logger: logger)
        scenario = try Self.scenario(config, logger)
        connections = try config.read(SimulatorSetting.connections)
        streams = try config.read(SimulatorSetting.streams)
        streamGate = try config.read(SimulatorSetting.streamGate) == .on
        streamPenalty = try config.read(SimulatorSetting.streamPenalty) == .on
        rejectionLimit = try config.read(SimulatorSetting.rejectionLimit)
        let idleTimeout = try config.read(SimulatorSetting.idleTimeout)
        self.idleTimeout = idleTimeout == .zero ? nil : idleTimeout
        unknownDevices = try config.read(SimulatorSetting.unknownDevices)
        let rate = try config.read(SimulatorSetting.requestsPerSecond)
        requestsPerSecond = rate == 0 ? nil : rate
        let broadcasts = try config.read(SimulatorSetting.broadcastsPerSecond)
        broadcastsPerSecond = broadcasts == 0 ? nil : broadcasts
        let budget = try config.read(SimulatorSetting.activityBudgetPerHour)
        activityBudgetPerHour = budget == 0 ? nil : budget
        journalCapacity = try config.read(SimulatorSetting.journalCapacity)
        journalFile = try config.read(SimulatorSetting.journalFile)
        threads = try config.read(SimulatorSetting.threads)
    }

    private static func scenario(_ config: ConfigReader, _ logger: Logger) throws(ConfigurationError) -> Scenario? {
        let (name, file) = (try config.read(SimulatorSetting.scenario), try config.read(SimulatorSetting.scenarioFile, logger: logger))
        do throws(SimulatorError) {
            switch (name, file) {
            case (nil, nil): return nil
            case (let name?, nil): return try ReadyScenario.named(name)
            case (nil, let file?): return try ScenarioReader.read(file: file)
            case (let name?, _?): throw SimulatorError(.scenario, "SCENARIO says \(name), and only one of the two may be set")
            }
        } catch {
            let setting: any DocumentedSetting = file == nil ? SimulatorSetting.scenario : SimulatorSetting.scenarioFile
            throw setting.error(expected: "a scenario (\(error))", given: file ?? name ?? "")
        }
    }

    /// Read before there is a logger.
    package static func logLevel(_ config: ConfigReader) throws(ConfigurationError) -> Logger.Level {
        try config.read(SimulatorSetting.level)
    }
}
