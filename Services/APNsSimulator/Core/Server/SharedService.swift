import Logging
import OpenSSL
import Synchronization
import SystemIO

/// The shared state of every loop and connection, set once.
final class SharedService: Sendable {
    let configuration: APNsSimulatorConfiguration
    private let tls: TLSContext
    /// The context that asks clients for a certificate, too.
    private let askingTLS: TLSContext
    let world: World
    let keyRing: KeyRing
    let tokenUpdates = TokenUpdates()
    let logger: Logger
    /// Whether to log a line per push. Read once, because every push needs it.
    let logsPushes: Bool
    private let connections = Atomic<UInt32>(0)
    private let openConnections = Atomic<Int>(0)
    private let failedLoops = Atomic<Int>(0)
    private let running = Mutex<ScenarioRun?>(nil)

    init(configuration: APNsSimulatorConfiguration, tls: TLSContext, askingTLS: TLSContext, world: World, keyRing: KeyRing, logger: Logger)
    {
        self.configuration = configuration
        self.tls = tls
        self.askingTLS = askingTLS
        self.world = world
        self.keyRing = keyRing
        self.logger = logger
        logsPushes = logger.logLevel <= .debug
    }

    /// The context for a new connection.
    var currentTLS: TLSContext { configuration.clientCAFile != nil || keyRing.asksForCertificates ? askingTLS : tls }

    /// The scenario that new loops begin with; running loops get it by command. Its readings hold at once.
    var scenario: ScenarioRun? {
        get { running.withLock { $0 } }
        set {
            let readings = newValue?.scenario.readings ?? Readings()
            running.withLock { $0 = newValue }
            world.adopt(readings)
            tokenUpdates.readings = readings
        }
    }

    /// Takes one of the places for connections, to be given back with `releaseConnection`.
    /// - Returns: false if all are taken.
    func admitConnection() -> Bool {
        if openConnections.wrappingAdd(1, ordering: .relaxed).newValue <= configuration.connections { return true }
        releaseConnection()
        return false
    }

    func releaseConnection() { openConnections.wrappingSubtract(1, ordering: .relaxed) }

    /// Writes the journal before answers leave.
    func writeJournal() {
        guard let failure = world.writeJournal() else { return }
        logger.critical(
            "The journal's file takes nothing more: requests are lost", metadata: [SimulatorLogKey.error: "\(failure.reason)"])
    }

    /// A loop has ended without a stop.
    func noteLoopFailed() { failedLoops.wrappingAdd(1, ordering: .relaxed) }

    var hasFailed: Bool { failedLoops.load(ordering: .relaxed) > 0 }

    /// 1 for the first.
    func nextConnectionNumber() -> UInt32 {
        connections.wrappingAdd(1, ordering: .relaxed).newValue
    }
}

/// A command from outside a loop.
enum LoopCommand: Sendable {
    case adopt(TCPSocket, SimulatorPort)
    /// `lastStream` nil: all that have come.
    case goAway(APNsSimulator.Selection, lastStream: Int32?, code: UInt32, debug: [UInt8])
    case setStreams(APNsSimulator.Selection, UInt32)
    case setSilent(APNsSimulator.Selection, Bool)
    case close(APNsSimulator.Selection, abruptly: Bool)
    case begin(ScenarioRun)
    /// Announce the shutdown, and go on until `stop`.
    case leave
    case stop
}

/// Access to a loop from outside: its mailbox and its thread.
final class LoopHandle: Sendable {
    let mailbox: Mailbox<LoopCommand>
    let wakeUp: WakeUp
    private let thread = Mutex<SystemThread?>(nil)

    private init() throws(SystemError) {
        wakeUp = try WakeUp()
        mailbox = Mailbox(wakeUp: wakeUp)
    }

    /// Starts `count` loops. The first one also accepts, and distributes the connections in turn.
    static func start(
        count: Int, listeners: [SimulatorPort: TCPListener], service: SharedService
    ) throws(SimulatorError) -> [LoopHandle] {
        var loops: [LoopHandle] = []
        do {
            for _ in 0..<count { loops.append(try LoopHandle()) }
        } catch {
            throw SimulatorError(.listening, "\(error)")
        }
        let peers = loops
        for (index, loop) in loops.enumerated() {
            let own = index == 0 ? listeners : [:]
            do throws(SystemError) {
                let thread = try SystemThread.start(name: "apns-sim-\(index)") {
                    ServerLoop.run(handle: loop, peers: peers, listeners: own, service: service)
                }
                loop.thread.withLock { $0 = thread }
            } catch {
                for started in loops[..<index] { started.post(.stop) }
                for started in loops[..<index] { started.join() }
                throw SimulatorError(.listening, "\(error)")
            }
        }
        return loops
    }

    func post(_ command: LoopCommand) { mailbox.post(command) }

    /// Waits for the thread's end, after `stop` was posted.
    func join() {
        thread.withLock { $0 }?.join()
    }
}
