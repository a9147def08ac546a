import Logging
import SystemIO

/// The end of connections.
extension ServerLoop {
    /// How long the loop's own end waits for clients that do not read.
    private static let longestFarewell = Duration.seconds(1)

    /// The connection is over for everybody but its client, who is given time to read what was sent.
    func close(_ connection: ServerConnection) {
        guard connections.removeValue(forKey: connection.number) != nil else { return }
        // First the sum, then the end: a client that sees the end finds the sum.
        service.world.noteConnectionClosed(handshakeFailed: !connection.isEstablished)
        service.releaseConnection()
        let settings = service.configuration.lingering
        guard let socket = connection.takeLeave(bytes: settings.bytes, until: .now + settings.time) else {
            return forget(connection.socket)
        }
        if lingering.count >= settings.sockets, let oldest = lingering.min(by: { $0.value.deadline < $1.value.deadline }) {
            end(oldest.value, oldest.key)
        }
        lingering[connection.number] = socket
        proceed(socket, connection.number)
        if !socket.isOver { schedule(.endOfLingering(connection: connection.number), at: socket.deadline) }
    }

    /// Something happened to the socket of a connection that is over.
    func proceed(_ socket: LingeringSocket, _ number: UInt32) {
        socket.proceed(&scratch)
        guard !socket.isOver else { return end(socket, number) }
        guard let interest = socket.takeChangedInterest() else { return }
        do throws(SystemError) {
            try poller.modify(socket.socket.descriptor, key: Key.connections + UInt64(number), interest: interest)
        } catch {
            end(socket, number)
        }
    }

    func end(_ socket: LingeringSocket, _ number: UInt32) {
        lingering[number] = nil
        forget(socket.socket)
    }

    /// Their descriptors are needed, or the loop ends.
    func endLingering() {
        for (number, socket) in lingering { end(socket, number) }
    }

    /// At the loop's end: what was sent is read, by clients that read.
    func awaitLingering() throws(SystemError) {
        let last = ContinuousClock.now + min(service.configuration.lingering.time, Self.longestFarewell)
        while !lingering.isEmpty, ContinuousClock.now < last {
            for event in try poller.wait(timeout: max(.zero, last - .now)) {
                if let number = connectionNumber(of: event), let socket = lingering[number] { proceed(socket, number) }
            }
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
