import Logging
import SystemIO

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

    /// At the loop's end: waits until the clients that read have read the rest.
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
