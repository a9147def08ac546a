import HTTP2
import Logging
import SystemIO

/// One thread's event loop: it owns its connections, their TLS and HTTP/2 sessions and their late answers; nobody else touches them.
final class ServerLoop {
    enum Task {
        case act(connection: UInt32, PendingStep)
        case handshakeDeadline(connection: UInt32)
        case idleDeadline(connection: UInt32)
        case resumeAccepting
        case resumeHandshake(connection: UInt32)
        case scenarioEvent(ScenarioRun, Int)
        case endOfPatience
    }

    private enum Key {
        static let wakeUp: UInt64 = 1
        /// Listener n of `SimulatorPort.all` is this plus n.
        static let listeners: UInt64 = 2
        /// Connection n is this plus n.
        static let connections: UInt64 = 16
    }

    private static let handshakeTime = Duration.seconds(10)
    private static let acceptingPause = Duration.milliseconds(200)
    /// How long clients that were told to leave are waited for.
    private static let patience = Duration.milliseconds(500)

    private let handle: LoopHandle
    private let peers: [LoopHandle]
    private var listeners: ListenerWatch
    private let service: SharedService
    private let poller: Poller
    private var scratch = ConnectionScratch()
    private var connections: [UInt32: ServerConnection] = [:]
    private var timers = TimerHeap<Task>()
    private var nextPeer = 0
    /// The clients have been told to leave.
    private var isLeaving = false
    /// When the loop ends at the latest; nil while nobody has said so.
    private var end: ContinuousClock.Instant?
    private var scenario: ScenarioRun?

    /// The thread's whole body.
    static func run(
        handle: LoopHandle, peers: [LoopHandle], listeners: [SimulatorPort: TCPListener], service: SharedService
    ) {
        do {
            let loop = try ServerLoop(handle, peers, listeners, service)
            try loop.run()
        } catch {
            // Only the kernel refusing an epoll call leads here: the loop cannot serve, and says so.
            service.logger.critical("An event loop ended", metadata: [SimulatorLogKey.error: "\(error)"])
            service.noteLoopFailed()
        }
        _ = handle.mailbox.close()
        for listener in listeners.values { listener.close() }
    }

    private init(
        _ handle: LoopHandle, _ peers: [LoopHandle], _ listeners: [SimulatorPort: TCPListener], _ service: SharedService
    ) throws(SystemError) {
        self.handle = handle
        self.peers = peers
        self.listeners = ListenerWatch(listeners, firstKey: Key.listeners)
        self.service = service
        poller = try Poller()
        try poller.add(handle.wakeUp.descriptor, key: Key.wakeUp, interest: .read)
        try self.listeners.resume(poller)
        if let run = service.scenario { begin(run) }
    }

    private func run() throws(SystemError) {
        while !isOver {
            let now = ContinuousClock.now
            for event in try poller.wait(timeout: timers.earliest.map { max(.zero, $0 - now) }) { handle(event) }
            runTimers()
        }
        for connection in connections.values {
            if isLeaving { connection.goAway(lastStream: nil, code: 0, debug: Answer(.shutdown).body ?? []) }
            connection.flush(&scratch)
            close(connection)
        }
    }

    private var isOver: Bool { end.map { connections.isEmpty || $0 <= .now } ?? false }

    private func handle(_ event: Poller.Event) {
        switch event.key {
        case Key.wakeUp:
            handle.wakeUp.clear()
            for command in handle.mailbox.takeAll() { obey(command) }
        case Key.listeners..<Key.connections: accept(SimulatorPort.all[Int(event.key - Key.listeners)])
        default:
            guard let connection = connections[UInt32(truncatingIfNeeded: event.key - Key.connections)] else { return }
            if event.isReadable { connection.receive(&scratch) }
            if event.isWritable { connection.flush(&scratch) }
            settle(connection)
        }
    }

    // MARK: Accepting

    private func accept(_ port: SimulatorPort) {
        guard let listener = listeners.listener(on: port) else { return }
        do throws(SystemError) {
            while let socket = try listener.accept() {
                guard service.admitConnection() else {
                    refuse(socket)
                    continue
                }
                let peer = peers[nextPeer % peers.count]
                nextPeer += 1
                if peer === handle { adopt(socket, port) } else { peer.post(.adopt(socket, port)) }
            }
        } catch {
            // Out of descriptors, mostly.
            service.logger.warning("Cannot accept connections", metadata: [SimulatorLogKey.error: "\(error)"])
            listeners.pause(poller)
            timers.schedule(.resumeAccepting, at: .now + Self.acceptingPause)
        }
    }

    private func refuse(_ socket: TCPSocket) {
        service.world.noteConnectionOpened()
        service.world.noteConnectionClosed(handshakeFailed: true)
        socket.close()
    }

    private func adopt(_ socket: TCPSocket, _ port: SimulatorPort) {
        guard !isLeaving else {
            service.releaseConnection()
            return socket.close()
        }
        do {
            let number = service.nextConnectionNumber()
            let place = scenario?.admit(port.environment, now: service.configuration.clock())
            if place?.entrance == .refuse {
                service.releaseConnection()
                return refuse(socket)
            }
            let connection = try ServerConnection(
                number: number, port: port, socket: socket, service: service, scenario: place)
            try poller.add(socket.descriptor, key: Key.connections + UInt64(number), interest: .read)
            connections[number] = connection
            service.world.noteConnectionOpened()
            if case .stallTLS(let time) = place?.entrance {
                if let time { timers.schedule(.resumeHandshake(connection: number), at: .now + .milliseconds(time)) }
            } else {
                timers.schedule(.handshakeDeadline(connection: number), at: .now + Self.handshakeTime)
            }
            if let timeout = service.configuration.idleTimeout {
                timers.schedule(.idleDeadline(connection: number), at: connection.lastArrival + timeout)
            }
        } catch {
            service.releaseConnection()
            service.logger.warning("Cannot serve a connection", metadata: [SimulatorLogKey.error: "\(error)"])
        }
    }

    // MARK: Connections

    /// After anything was done with a connection: late answers into the heap, the poller's interest brought up to date, ended ones closed.
    private func settle(_ connection: ServerConnection) {
        for step in connection.takePending() {
            timers.schedule(.act(connection: connection.number, step), at: .now + step.delay)
        }
        guard !connection.isOver else { return close(connection) }
        guard let interest = connection.takeChangedInterest() else { return }
        do throws(SystemError) {
            try poller.modify(connection.socket.descriptor, key: Key.connections + UInt64(connection.number), interest: interest)
        } catch {
            close(connection)
        }
    }

    private func close(_ connection: ServerConnection) {
        guard connections.removeValue(forKey: connection.number) != nil else { return }
        do throws(SystemError) {
            try poller.remove(connection.socket.descriptor)
        } catch {
            service.logger.debug("epoll forgot a connection", metadata: [SimulatorLogKey.error: "\(error)"])
        }
        // First the sum, then the end: whoever sees the end finds the sum.
        service.world.noteConnectionClosed(handshakeFailed: !connection.isEstablished)
        service.releaseConnection()
        connection.socket.close()
    }

    private func runTimers() {
        guard !timers.isEmpty else { return }
        let now = ContinuousClock.now
        while let task = timers.popDue(at: now) {
            switch task {
            case .act(let number, let step):
                guard let connection = connections[number] else { continue }
                connection.act(step)
                connection.flush(&scratch)
                settle(connection)
            case .handshakeDeadline(let number):
                if let connection = connections[number], !connection.isEstablished { close(connection) }
            case .idleDeadline(let number): if let connection = connections[number] { endIfIdle(connection, now) }
            case .resumeHandshake(let number):
                guard let connection = connections[number] else { continue }
                connection.resumeHandshake()
                connection.flush(&scratch)
                settle(connection)
                timers.schedule(.handshakeDeadline(connection: number), at: now + Self.handshakeTime)
            case .scenarioEvent(let run, let index): strike(run, index)
            case .endOfPatience: break
            case .resumeAccepting:
                do throws(SystemError) { try listeners.resume(poller) } catch { timers.schedule(task, at: now + Self.acceptingPause) }
            }
        }
    }

    /// A connection that was busy since its deadline was set gets another one.
    private func endIfIdle(_ connection: ServerConnection, _ now: ContinuousClock.Instant) {
        guard let timeout = service.configuration.idleTimeout else { return }
        let deadline = connection.lastArrival + timeout
        guard deadline <= now else { return timers.schedule(.idleDeadline(connection: connection.number), at: deadline) }
        connection.goAway(lastStream: nil, code: 0, debug: Answer(.idleTimeout).body ?? [])
        connection.flush(&scratch)
        settle(connection)
    }

    // MARK: Commands

    private func obey(_ command: LoopCommand) {
        switch command {
        case .adopt(let socket, let port): adopt(socket, port)
        case .goAway(let selection, let lastStream, let code, let debug):
            forEach(selection) { $0.goAway(lastStream: lastStream, code: code, debug: debug) }
        case .setStreams(let selection, let streams): forEach(selection) { $0.setStreams(streams) }
        case .setSilent(let selection, let isSilent): forEach(selection) { $0.isSilent = isSilent }
        case .close(let selection): forEach(selection) { $0.end() }
        case .begin(let run): begin(run)
        case .leave:
            isLeaving = true
            forEach(.all) { $0.leave() }
        case .stop:
            end = isLeaving ? .now + Self.patience : .now
            timers.schedule(.endOfPatience, at: end ?? .now)
        }
    }

    // MARK: Scenario

    private func begin(_ run: ScenarioRun) {
        scenario = run
        let now = service.configuration.clock()
        for connection in connections.values.sorted(by: { $0.number < $1.number }) {
            connection.begin(run.admit(connection.environment, now: now, isNew: false))
            connection.flush(&scratch)
            settle(connection)
        }
        for (index, event) in run.scenario.events.enumerated() {
            timers.schedule(.scenarioEvent(run, index), at: .now + .milliseconds(event.at))
        }
    }

    /// The moment of an event: nothing where another scenario has taken over.
    private func strike(_ run: ScenarioRun, _ index: Int) {
        guard run === scenario else { return }
        let event = run.scenario.events[index]
        if let every = event.every { timers.schedule(.scenarioEvent(run, index), at: .now + .milliseconds(every)) }
        // Every loop strikes its own connections; one of them counts.
        if !listeners.isEmpty { run.noteStrike(run.eventIndex(index)) }
        forEach(event.environment.map { .environment($0) } ?? .all) { connection in
            do throws(HTTP2Error) {
                try connection.suffer(event.effect, causedBy: nil)
            } catch {
                connection.end()
            }
        }
    }

    private func forEach(_ selection: APNsSimulator.Selection, _ body: (ServerConnection) -> Void) {
        for connection in connections.values where connection.isMeant(by: selection) {
            body(connection)
            connection.flush(&scratch)
            settle(connection)
        }
    }
}
