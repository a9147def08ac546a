package import Logging
internal import Observability
internal import OpenSSL
internal import Synchronization
internal import SystemIO

/// A simulation of Apple's push service over real TLS and HTTP/2. docs/apns.md lists behaviour that comes from other sources than Apple.
///
/// A push port and a channel port for each environment, served by event-loop threads of its own. Usable from any thread or task; its
/// devices, scripts and requests live as long as the object.
package final class APNsSimulator: Sendable {
    private enum Running {
        case idle
        case running(loops: [LoopHandle], ports: [SimulatorPort: Int])
        case stopped
    }

    package let configuration: APNsSimulatorConfiguration
    let world: World
    let keyRing: KeyRing
    let service: SharedService
    private let running = Mutex(Running.idle)

    /// Reads the certificate; opens nothing yet.
    /// - Throws: ``SimulatorError`` for a setting or file that cannot be used.
    package init(_ configuration: APNsSimulatorConfiguration, logger: Logger = Logger(label: "apns-simulator")) throws(SimulatorError) {
        try configuration.check()
        let (tls, askingTLS): (TLSContext, TLSContext)
        do {
            tls = try TLSContext.server(certificateFile: configuration.certificateFile, keyFile: configuration.keyFile, alpn: ["h2"])
            askingTLS = try TLSContext.server(
                certificateFile: configuration.certificateFile, keyFile: configuration.keyFile, alpn: ["h2"],
                clientTrust: configuration.clientCAFile, admitsAnyClient: true)
        } catch {
            throw SimulatorError(.configuration, "\(error)")
        }
        self.configuration = configuration
        world = World(
            unknownDevices: configuration.unknownDevices, journalCapacity: configuration.journalCapacity,
            journalFile: try Self.journalFile(configuration),
            rules: WorldRules(
                requestsPerSecond: configuration.requestsPerSecond, broadcastsPerSecond: configuration.broadcastsPerSecond,
                activityBudgetPerHour: configuration.activityBudgetPerHour), clock: configuration.clock)
        keyRing = KeyRing(configuration.keys)
        service = SharedService(
            configuration: configuration, tls: tls, askingTLS: askingTLS, world: world, keyRing: keyRing, logger: logger)
    }

    private static func journalFile(_ configuration: APNsSimulatorConfiguration) throws(SimulatorError) -> JournalFile? {
        guard let path = configuration.journalFile else { return nil }
        do {
            return try JournalFile(path: path)
        } catch  where error.isHeldByAnother {
            throw SimulatorError(.configuration, "journal file \(path): another simulator is writing it")
        } catch {
            throw SimulatorError(.configuration, "journal file \(path): \(error)")
        }
    }

    deinit { stop() }

    /// Opens the ports and serves them until ``stop()``. Once per object.
    package func start() throws(SimulatorError) {
        try running.withLock { running throws(SimulatorError) in
            guard case .idle = running else { throw SimulatorError(.listening, "the simulator was started before") }
            let listeners = try Self.listen(configuration)
            if let scenario = configuration.scenario { service.scenario = try run(of: scenario) }
            let loops = try LoopHandle.start(count: configuration.threads, listeners: listeners, service: service)
            running = .running(loops: loops, ports: listeners.mapValues(\.port))
        }
    }

    private static func listen(
        _ configuration: APNsSimulatorConfiguration
    ) throws(SimulatorError) -> [SimulatorPort: TCPListener] {
        let numbers = [
            SimulatorPort(.production): configuration.productionPort, SimulatorPort(.sandbox): configuration.sandboxPort,
            SimulatorPort(.production, isManagement: true): configuration.productionManagementPort,
            SimulatorPort(.sandbox, isManagement: true): configuration.sandboxManagementPort,
        ]
        var listeners: [SimulatorPort: TCPListener] = [:]
        for (port, number) in numbers {
            let place = ListeningPort(host: configuration.host, port: number, hostKey: SimulatorSetting.host.key, portKey: port.setting)
            do {
                listeners[port] = try TCPListener(host: configuration.host, port: number, backlog: 1024)
            } catch let error as SystemError {
                throw SimulatorError(.listening, "\(place.failure(code: error.code, words: "\(error)"))")
            } catch {
                throw SimulatorError(.listening, "\(place.unknownHost())")
            }
        }
        return listeners
    }

    /// Announces the shutdown on every connection, and answers later requests `Shutdown`; new connections are closed. ``stop()`` then waits
    /// half a second at most for the clients to leave.
    package func beginShutdown() { post(.leave) }

    /// Closes the ports and every connection, without a notice unless ``beginShutdown()`` was called, and waits for the threads.
    /// Idempotent; not from one of its own threads.
    package func stop() {
        let loops: [LoopHandle] = running.withLock { running in
            defer { running = .stopped }
            if case .running(let loops, _) = running { return loops }
            return []
        }
        for loop in loops { loop.post(.stop) }
        for loop in loops { loop.join() }
        world.close()
    }

    /// The port of an environment; 0 unless started.
    package func port(_ environment: SimulatorEnvironment, isManagement: Bool = false) -> Int {
        running.withLock { running in
            if case .running(_, let ports) = running { ports[SimulatorPort(environment, isManagement: isManagement)] ?? 0 } else { 0 }
        }
    }

    package var productionPort: Int { port(.production) }
    package var sandboxPort: Int { port(.sandbox) }

    /// Replaces the scenario before, for loops that begin and for those that run, in one step, so that after two calls all loops have the
    /// same one.
    func begin(_ run: ScenarioRun) {
        running.withLock { running in
            service.scenario = run
            guard case .running(let loops, _) = running else { return }
            for loop in loops { loop.post(.begin(run)) }
        }
    }

    /// Hands a command to every loop.
    func post(_ command: LoopCommand) {
        let loops: [LoopHandle] = running.withLock { running in
            if case .running(let loops, _) = running { loops } else { [] }
        }
        for loop in loops { loop.post(command) }
    }
}

extension APNsSimulatorConfiguration {
    func check() throws(SimulatorError) {
        try require(Self.allowedConnections.contains(connections), "connections: \(Self.allowedConnections)")
        try require(Self.allowedStreams.contains(streams), "streams: \(Self.allowedStreams)")
        try require(Self.allowedThreads.contains(threads), "threads: \(Self.allowedThreads)")
        try require(Self.allowedJournalCapacity.contains(journalCapacity), "journal capacity: \(Self.allowedJournalCapacity)")
        for port in [productionPort, sandboxPort, productionManagementPort, sandboxManagementPort, controlPort ?? 0] {
            try require((0...65_535).contains(port), "ports: 0 to 65535")
        }
    }

    private func require(_ condition: Bool, _ expected: String) throws(SimulatorError) {
        if !condition { throw SimulatorError(.configuration, "expected \(expected)") }
    }
}
