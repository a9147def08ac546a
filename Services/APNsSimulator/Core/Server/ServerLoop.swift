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
            if isLeaving { connection.goAway(lastStream: nil, code: 0, debug: StatusAnswer(.shutdown).body ?? []) }
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

    /// Schedules late answers, updates the poller's interest, and closes ended ones, after every change of a connection.
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

/// A loop's commands, from outside and from its scenario.
extension ServerLoop {
    // MARK: Commands

    func obey(_ command: LoopCommand) {
        switch command {
        case .adopt(let socket, let port): adopt(socket, port)
        case .goAway(let selection, let lastStream, let code, let debug):
            forEach(selection) { $0.goAway(lastStream: lastStream, code: code, debug: debug) }
        case .setStreams(let selection, let streams): forEach(selection) { $0.setStreams(streams) }
        case .setSilent(let selection, let isSilent): forEach(selection) { $0.setSilent(isSilent) }
        case .close(let selection, let abruptly): forEach(selection) { $0.close(abruptly: abruptly) }
        case .begin(let run): begin(run)
        case .leave:
            isLeaving = true
            forEach(.all) { $0.leave() }
        case .stop:
            end = isLeaving ? .now + Self.patience : .now
            schedule(.endOfPatience, at: end ?? .now)
        }
    }

    // MARK: Scenario

    func begin(_ run: ScenarioRun) {
        // A loop that has just begun may have found it already.
        guard run !== scenario else { return }
        timers.dropEvents(of: scenario)
        scenario = run
        let now = service.configuration.clock()
        for connection in connections.values.sorted(by: { $0.number < $1.number }) {
            connection.begin(run.admit(connection.environment, now: now, isNew: false))
            connection.flush(&scratch)
            settle(connection)
        }
        for (index, event) in run.scenario.events.enumerated() {
            schedule(.scenarioEvent(run, index), at: .now + .milliseconds(event.at))
        }
    }

    /// The moment of an event: no effect if another scenario has replaced it.
    func strike(_ run: ScenarioRun, _ index: Int) {
        guard run === scenario else { return }
        let event = run.scenario.events[index]
        if let every = event.every { schedule(.scenarioEvent(run, index), at: .now + .milliseconds(every)) }
        // Every loop applies it to its own connections; one of them counts.
        if !listeners.isEmpty { run.noteStrike(run.eventIndex(index)) }
        forEach(event.environment.map { .environment($0) } ?? .all) { connection in
            do throws(HTTP2Error) {
                try connection.apply(event.effect, causedBy: nil)
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

/// The end of connections.
extension ServerLoop {
    /// How long the loop's own end waits for clients that do not read.
    private static let longestFarewell = Duration.seconds(1)

    /// The connection is over, but its client has time to read the rest.
    func close(_ connection: ServerConnection) {
        guard connections.removeValue(forKey: connection.number) != nil else { return }
        noteLost(connection)
        let settings = service.configuration.lingering
        let deadline = ContinuousClock.now + settings.time + connection.output.roundTrip
        let socket = connection.takeLeave(bytes: settings.bytes, until: deadline)
        if socket == nil { noteLost(connection.output) }
        // First the sums, then the end: a client that sees the end finds the sums.
        service.world.noteConnectionClosed(handshakeFailed: !connection.isEstablished)
        service.releaseConnection()
        guard let socket else { return forget(connection.socket) }
        if lingering.count >= settings.sockets, let oldest = lingering.min(by: { $0.value.deadline < $1.value.deadline }) {
            end(oldest.value, oldest.key)
        }
        lingering[connection.number] = socket
        proceed(socket, connection.number)
        if !socket.isOver { schedule(.endOfLingering(connection: connection.number), at: socket.deadline) }
    }

    /// An event of the socket of a connection that is over.
    func proceed(_ socket: LingeringSocket, _ number: UInt32) {
        socket.proceed(&scratch)
        guard !socket.isOver else { return end(socket, number) }
        if let due = socket.output.takeRelease() { schedule(.release(connection: number), at: due) }
        guard let interest = socket.takeChangedInterest() else { return }
        do throws(SystemError) {
            try poller.modify(socket.socket.descriptor, key: Key.connections + UInt64(number), interest: interest)
        } catch {
            end(socket, number)
        }
    }

    func end(_ socket: LingeringSocket, _ number: UInt32) {
        lingering[number] = nil
        noteLost(socket.output)
        forget(socket.socket)
    }

    /// Answers that were to come later.
    private func noteLost(_ connection: ServerConnection) {
        let late = connection.takeLate()
        guard !late.isEmpty else { return }
        let now = service.configuration.clock()
        for step in late { service.world.noteLost(step.sequence, counted: nil, .connectionClosed, now: now) }
        service.writeJournal()
    }

    /// Answers that were made and have not left.
    private func noteLost(_ output: ConnectionOutput) {
        let lost = output.unsent.takeAll()
        guard !lost.isEmpty else { return }
        let now = service.configuration.clock()
        for answer in lost { service.world.noteLost(answer.sequence, counted: answer.kind, .connectionClosed, now: now) }
        service.writeJournal()
    }

    /// Their descriptors are needed, or the loop ends.
    func endLingering() {
        for (number, socket) in lingering { end(socket, number) }
    }

    /// Waits, at the loop's end, until the clients that read have read the rest.
    func awaitLingering() throws(SystemError) {
        let last = ContinuousClock.now + min(service.configuration.lingering.time, Self.longestFarewell)
        while !lingering.isEmpty, ContinuousClock.now < last {
            let next = min(timers.earliest ?? last, last)
            for event in try poller.wait(timeout: max(.zero, next - .now)) {
                if let number = connectionNumber(of: event), let socket = lingering[number] { proceed(socket, number) }
            }
            runTimers()
        }
        endLingering()
    }

    private func forget(_ socket: TCPSocket) {
        do throws(SystemError) {
            try poller.remove(socket.descriptor)
        } catch {
            service.logger.debug("epoll forgot a connection", metadata: [SimulatorLogKey.error: "\(error)"])
        }
        socket.close()
    }
}

/// A loop's due tasks.
extension ServerLoop {
    func schedule(_ task: LoopTimers.Task, at due: ContinuousClock.Instant) {
        timers.schedule(task, at: due) { connections[$0] != nil || lingering[$0] != nil }
    }

    func runTimers() {
        guard !timers.isEmpty else { return }
        let now = ContinuousClock.now
        while let task = timers.popDue(at: now) { run(task, now) }
    }

    private func run(_ task: LoopTimers.Task, _ now: ContinuousClock.Instant) {
        switch task {
        case .act(let number, let stream):
            guard let connection = connections[number] else { return }
            connection.act(stream)
            connection.flush(&scratch)
            settle(connection)
        case .release(let number):
            if let socket = lingering[number] {
                socket.output.noteRelease()
                return proceed(socket, number)
            }
            guard let connection = connections[number] else { return }
            connection.output.noteRelease()
            connection.flush(&scratch)
            settle(connection)
        case .handshakeDeadline(let number):
            if let connection = connections[number], !connection.isEstablished { close(connection) }
        case .endOfLingering(let number):
            if let socket = lingering[number] { end(socket, number) }
        case .idleSweep: sweepIdle(now)
        case .resumeHandshake(let number):
            guard let connection = connections[number] else { return }
            connection.resumeHandshake()
            connection.flush(&scratch)
            settle(connection)
            schedule(.handshakeDeadline(connection: number), at: now + Self.handshakeTime)
        case .scenarioEvent(let run, let index): strike(run, index)
        case .endOfPatience: break
        case .resumeAccepting:
            do throws(SystemError) { try listeners.resume(poller) } catch { schedule(task, at: now + Self.acceptingPause) }
        }
    }

    // MARK: Idle connections

    /// Schedules a sweep while there are connections.
    func scheduleSweep() {
        guard let timeout = service.configuration.idleTimeout, !isSweepScheduled else { return }
        isSweepScheduled = true
        schedule(.idleSweep, at: .now + timeout)
    }

    /// Sends GOAWAY over idle connections, and schedules the next sweep for when one may be due.
    private func sweepIdle(_ now: ContinuousClock.Instant) {
        isSweepScheduled = false
        guard let timeout = service.configuration.idleTimeout else { return }
        for connection in connections.values where connection.idleDeadline(timeout) <= now { endIdle(connection, now) }
        guard let next = connections.values.lazy.map({ $0.idleDeadline(timeout) }).min() else { return }
        isSweepScheduled = true
        // A sweep checks all of them, so not one for each.
        schedule(.idleSweep, at: max(next, now + timeout / 100))
    }

    private func endIdle(_ connection: ServerConnection, _ now: ContinuousClock.Instant) {
        // A stream without an answer, or a peer that has vanished, keeps it open.
        guard connection.idleSince == nil else { return close(connection) }
        connection.idleSince = now
        connection.goAway(lastStream: nil, code: 0, debug: StatusAnswer(.idleTimeout).body ?? [])
        connection.flush(&scratch)
        settle(connection)
    }
}
