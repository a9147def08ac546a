import HTTP2
import Logging
import SystemIO

/// One thread's event loop: it owns its connections, their TLS and HTTP/2 sessions and their late answers; no other thread touches them.
final class ServerLoop {
    enum Key {
        static let wakeUp: UInt64 = 1
        /// Listener n of `SimulatorPort.all` is this plus n.
        static let listeners: UInt64 = 2
        /// Connection n is this plus n.
        static let connections: UInt64 = 16
    }

    static let handshakeTime = Duration.seconds(10)
    static let acceptingPause = Duration.milliseconds(200)
    /// How long the loop waits for clients after the shutdown notice.
    static let patience = Duration.milliseconds(500)

    private let handle: LoopHandle
    private let peers: [LoopHandle]
    var listeners: ListenerWatch
    let service: SharedService
    let poller: Poller
    var scratch = ConnectionScratch()
    var connections: [UInt32: ServerConnection] = [:]
    /// Connections that are over, whose clients may not have read all yet.
    var lingering: [UInt32: LingeringSocket] = [:]
    var timers = LoopTimers()
    var isSweepScheduled = false
    private var nextPeer = 0
    /// The shutdown notice was sent to the clients.
    var isLeaving = false
    /// When the loop ends at the latest; nil before a stop.
    var end: ContinuousClock.Instant?
    var scenario: ScenarioRun?

    /// The thread's whole body.
    static func run(
        handle: LoopHandle, peers: [LoopHandle], listeners: [SimulatorPort: TCPListener], service: SharedService
    ) {
        do {
            let loop = try ServerLoop(handle, peers, listeners, service)
            try loop.run()
        } catch {
            // Only if the kernel refuses an epoll call: the loop cannot serve, and reports it.
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
        listeners.close(poller)
        try awaitLingering()
    }

    /// nil where the event is no connection's.
    func connectionNumber(of event: Poller.Event) -> UInt32? {
        event.key < Key.connections ? nil : UInt32(truncatingIfNeeded: event.key - Key.connections)
    }

    private var isOver: Bool { end.map { connections.isEmpty || $0 <= .now } ?? false }

    private func handle(_ event: Poller.Event) {
        switch event.key {
        case Key.wakeUp:
            handle.wakeUp.clear()
            for command in handle.mailbox.takeAll() { obey(command) }
        case Key.listeners..<Key.connections: accept(SimulatorPort.all[Int(event.key - Key.listeners)])
        default:
            guard let number = connectionNumber(of: event) else { return }
            if let socket = lingering[number] { return proceed(socket, number) }
            guard let connection = connections[number] else { return }
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
            endLingering()
            listeners.pause(poller)
            schedule(.resumeAccepting, at: .now + Self.acceptingPause)
        }
    }

    private func refuse(_ socket: TCPSocket) {
        service.world.noteConnectionOpened()
        service.world.noteConnectionClosed(handshakeFailed: true)
        socket.close()
    }

    func adopt(_ socket: TCPSocket, _ port: SimulatorPort) {
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
                if let time { schedule(.resumeHandshake(connection: number), at: .now + .milliseconds(time)) }
            } else {
                schedule(.handshakeDeadline(connection: number), at: .now + Self.handshakeTime)
            }
            scheduleSweep()
        } catch {
            service.releaseConnection()
            service.logger.warning("Cannot serve a connection", metadata: [SimulatorLogKey.error: "\(error)"])
        }
    }

    // MARK: Connections

    /// After every change of a connection: schedules late answers, updates the poller's interest, and closes ended ones.
    func settle(_ connection: ServerConnection) {
        for (stream, delay) in connection.takeUnscheduled() {
            schedule(.act(connection: connection.number, stream: stream), at: .now + delay)
        }
        if let due = connection.output.takeRelease() { schedule(.release(connection: connection.number), at: due) }
        guard !connection.isOver else { return close(connection) }
        guard let interest = connection.takeChangedInterest() else { return }
        do throws(SystemError) {
            try poller.modify(connection.socket.descriptor, key: Key.connections + UInt64(connection.number), interest: interest)
        } catch {
            close(connection)
        }
    }
}
