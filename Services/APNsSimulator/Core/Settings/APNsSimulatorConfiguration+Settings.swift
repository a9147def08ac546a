package import Configuration
package import Logging
package import Observability

extension APNsSimulatorConfiguration {
    private enum Switch: String, CaseIterable {
        case on, off
    }

    /// Reads every setting of ``SimulatorSetting/all``.
    /// - Throws: `ConfigurationError`, one sentence that names the environment variable.
    package init(_ config: ConfigReader, logger: Logger) throws(ConfigurationError) {
        let keysFile = try config.file("keys.file", logger: logger)
        let keys: [ProviderKey]
        do throws(SimulatorError) {
            keys = try KeysFile.read(keysFile, logger: logger)
        } catch {
            throw ConfigurationError("keys.file", expected: "a file of provider keys (\(error))", given: keysFile)
        }
        self.init(
            certificateFile: try config.file("tls.certificate.file", logger: logger),
            keyFile: try config.file("tls.key.file", logger: logger, isSecret: true), keys: keys)
        host = config.text("host", default: "127.0.0.1")
        productionPort = try config.integer("production.port", default: 2197, in: 0...65_535)
        sandboxPort = try config.integer("sandbox.port", default: 2198, in: 0...65_535)
        productionManagementPort = try config.integer("production.management.port", default: 0, in: 0...65_535)
        sandboxManagementPort = try config.integer("sandbox.management.port", default: 0, in: 0...65_535)
        controlPort = try config.integer("control.port", default: 2199, in: 0...65_535)
        clientCAFile = try config.optionalFile("client.ca.file", logger: logger)
        scenario = try Self.scenario(config, logger)
        connections = try config.integer("connections", default: 10_000, in: Self.allowedConnections)
        streams = try config.integer("streams", default: 1000, in: Self.allowedStreams)
        streamGate = try config.choice("stream.gate", default: Switch.on) == .on
        streamPenalty = try config.choice("stream.penalty", default: Switch.on) == .on
        rejectionLimit = try config.integer("rejection.limit", default: 0, in: 0...1_000_000)
        let idleSeconds = try config.integer("idle.timeout.seconds", default: 7200, in: 0...86_400)
        idleTimeout = idleSeconds == 0 ? nil : .seconds(idleSeconds)
        unknownDevices = try config.choice("unknown.devices", default: UnknownDevices.accept)
        let rate = try config.integer("requests.per.second", default: 0, in: 0...10_000_000)
        requestsPerSecond = rate == 0 ? nil : rate
        let broadcasts = try config.integer("broadcasts.per.second", default: 0, in: 0...1_000_000)
        broadcastsPerSecond = broadcasts == 0 ? nil : broadcasts
        let budget = try config.integer("activity.budget.per.hour", default: 0, in: 0...1_000_000)
        activityBudgetPerHour = budget == 0 ? nil : budget
        journalCapacity = try config.integer("journal.capacity", default: 200_000, in: Self.allowedJournalCapacity)
        journalFile = config.string(forKey: "journal.file").flatMap { $0.isEmpty ? nil : $0 }
        threads = try config.integer("threads", default: 1, in: Self.allowedThreads)
    }

    private static func scenario(_ config: ConfigReader, _ logger: Logger) throws(ConfigurationError) -> Scenario? {
        let (name, file) = (config.optionalText("scenario"), try config.optionalFile("scenario.file", logger: logger))
        do throws(SimulatorError) {
            switch (name, file) {
            case (nil, nil): return nil
            case (let name?, nil): return try ReadyScenario.named(name)
            case (nil, let file?): return try ScenarioReader.read(file: file)
            case (let name?, _?): throw SimulatorError(.scenario, "SCENARIO says \(name), and only one of the two may be set")
            }
        } catch {
            throw ConfigurationError(
                file == nil ? "scenario" : "scenario.file", expected: "a scenario (\(error))", given: file ?? name ?? "")
        }
    }

    /// Read before there is a logger.
    package static func logLevel(_ config: ConfigReader) throws(ConfigurationError) -> Logger.Level {
        try config.choice("log.level", default: Logger.Level.info)
    }
}
