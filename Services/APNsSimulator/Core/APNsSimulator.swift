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

/// Live Activities, in-process. Over HTTP it is `/v1/devices/{token}/activities`.
extension APNsSimulator {
    /// The activities that the device remembers, the oldest first; empty for a device that was never installed.
    package func activities(_ token: String) throws(SimulatorError) -> [ActivitySummary] {
        world.activities(of: try Self.key(token), now: configuration.clock())?.activities ?? []
    }

    /// Suspends until the device's activities have changed `count` times since it was installed, or `timeout` has passed.
    package func activities(
        _ token: String, changes count: Int, timeout: Duration = .seconds(30)
    ) async throws(SimulatorError) -> [ActivitySummary] {
        _ = await world.wait(for: .activityChanges(try Self.key(token), count: Int64(count)), timeout: timeout)
        return try activities(token)
    }

    /// The app on the device starts one.
    /// - Parameter channelID: It follows this channel; else it gets an update token.
    /// - Returns: nil without such a device or channel, and if the id is taken.
    package func startActivity(
        _ attributesType: String, on token: String, id: String? = nil, attributes: String = "{}", contentState: String? = nil,
        channelID: String? = nil
    ) throws(SimulatorError) -> ActivitySummary? {
        let local = World.LocalStart(
            id: id, topic: [], attributesType: attributesType, attributes: attributes, contentState: contentState,
            updates: channelID.map { .channel($0) } ?? .token)
        let now = configuration.clock()
        guard case .done(let id) = world.start(local, on: try Self.key(token), now: now) else { return nil }
        return try activities(token).last { $0.id == id }
    }

    /// The system gives it another update token.
    /// - Returns: The new token; nil if the activity has none, or is over.
    package func rotateActivity(_ id: String, on token: String) throws(SimulatorError) -> String? {
        guard case .done = world.rotateActivity(id, on: try Self.key(token), to: nil, now: configuration.clock()) else { return nil }
        return try activities(token).last { $0.id == id }?.updateToken
    }

    /// The person dismisses it.
    @discardableResult
    package func dismissActivity(_ id: String, on token: String) throws(SimulatorError) -> Bool {
        if case .done = world.dismissActivity(id, on: try Self.key(token), now: configuration.clock()) { true } else { false }
    }
}

/// Server actions on connections, on demand. All take effect a moment later, on the connections' own threads, for those open then.
extension APNsSimulator {
    /// Which live connections a command is for.
    package enum Selection: Sendable, Equatable {
        case all
        case environment(SimulatorEnvironment)
        /// The connection's number as the journal counts it.
        case connection(Int)
    }

    /// Sends GOAWAY with `{"reason":…}` and takes no new streams (docs/apns.md, Connections).
    /// - Parameters:
    ///   - reason: nil sends no text; ``RejectionReason/shutdown`` is Apple's reason when a server goes down.
    ///   - text: Sent verbatim instead of a reason: APNs has been seen to send plain words.
    ///   - lastStream: The last processed stream: open streams above are lost, and the client has to send them again. An even number means
    ///     the one below it; nil: all so far; `Int32.max`: a notice, which changes nothing.
    package func goAway(
        _ selection: Selection = .all, reason: RejectionReason? = .shutdown, text: String? = nil, lastStream: Int32? = nil, code: UInt32 = 0
    ) {
        let debug = text.map { Array($0.utf8) } ?? reason.flatMap { StatusAnswer($0).body } ?? []
        post(.goAway(selection, lastStream: lastStream, code: code, debug: debug))
    }

    /// Announces another MAX_CONCURRENT_STREAMS on live connections. It replaces the configured value there.
    package func setStreams(_ streams: Int, _ selection: Selection = .all) {
        post(.setStreams(selection, UInt32(clamping: streams)))
    }

    /// Ends the TCP connections without a GOAWAY.
    /// - Parameter abruptly: Closes with a TCP reset, after which the client loses bytes that it has not read yet.
    package func closeConnections(_ selection: Selection = .all, abruptly: Bool = false) {
        post(.close(selection, abruptly: abruptly))
    }

    /// From now on live connections swallow their requests without an answer, or answer again. Swallowed requests stay unanswered.
    package func setSilent(_ isSilent: Bool, _ selection: Selection = .all) {
        post(.setSilent(selection, isSilent))
    }
}

/// Devices' own actions, in-process. Over HTTP it is `POST /v1/devices/{token}/actions`.
extension APNsSimulator {
    /// While a device is off, its pushes are accepted, and the last of each topic waits; once it is on, it shows them.
    @discardableResult
    package func setOnline(_ isOnline: Bool, _ token: String) throws(SimulatorError) -> Bool {
        try perform(isOnline ? .comeOnline : .goOffline, on: token) == .done
    }

    /// The app is deleted and installed again under another token; the old one is 410 from now on.
    /// - Returns: false if the old token is unknown or the new one belongs to another device.
    @discardableResult
    package func reinstall(_ token: String, as other: String) throws(SimulatorError) -> Bool {
        try perform(.reinstall(as: Self.key(other)), on: token) == .done
    }

    /// From now on pushes to the token are answered 410 `ExpiredToken`. The app and its lock screen stay.
    @discardableResult
    package func expire(_ token: String) throws(SimulatorError) -> Bool {
        try perform(.expire(since: configuration.clock()), on: token) == .done
    }

    /// Gives the app another token as `reinstall` does, but the lock screen stays: the system has issued the token.
    @discardableResult
    package func rotate(_ token: String, to other: String) throws(SimulatorError) -> Bool {
        try perform(.rotate(to: Self.key(other)), on: token) == .done
    }

    /// The user opens the app: the lock screen is empty.
    @discardableResult
    package func open(_ token: String) throws(SimulatorError) -> Bool {
        try perform(.open, on: token) == .done
    }

    /// - Parameter throttle: nil takes the limit away.
    package func setThrottle(_ throttle: Throttle?, _ token: String) throws(SimulatorError) {
        let key = try Self.key(token)
        world.change { $0.records[key]?.installation?.throttle = throttle }
    }

    func perform(_ deed: World.Deed, on token: String) throws(SimulatorError) -> World.DeedResult {
        world.perform(deed, on: try Self.key(token), now: configuration.clock())
    }
}

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

/// Why the simulator could not perform a call: a fault in a setting, a file or the call.
package struct SimulatorError: Error, Equatable, CustomStringConvertible {
    package enum Code: Sendable, Equatable {
        /// A setting is out of its range, or a file has the wrong content.
        case configuration
        /// A port could not be opened.
        case listening
        /// The text is not a device token: an even number of hex digits, at most 512.
        case token
        /// A scenario that cannot be read, or an unknown name.
        case scenario
    }

    package let code: Code
    package let description: String

    init(_ code: Code, _ description: String) {
        self.code = code
        self.description = description
    }
}

/// The environment of Apple's that a port simulates.
package enum SimulatorEnvironment: String, Sendable, CaseIterable, Hashable {
    case production, sandbox
}

/// The address and port that the simulator listens on, as Apple has names and ports for each (Apple: Sending notification requests to
/// APNs).
package struct SimulatorPort: Hashable, Sendable {
    package let environment: SimulatorEnvironment
    /// Channels are managed here, and nothing is pushed.
    package let isManagement: Bool

    package init(_ environment: SimulatorEnvironment, isManagement: Bool = false) {
        self.environment = environment
        self.isManagement = isManagement
    }

    /// The key of its setting.
    var setting: String { environment.rawValue + (isManagement ? ".management" : "") + ".port" }

    static let all = [false, true].flatMap { isManagement in
        SimulatorEnvironment.allCases.map { SimulatorPort($0, isManagement: isManagement) }
    }
}
