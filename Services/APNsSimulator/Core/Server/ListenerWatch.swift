import SystemIO

/// The listening ports of one loop, watched for clients that wait. Paused if there are no descriptors for them: a queue that cannot be
/// emptied would wake the loop without end.
struct ListenerWatch {
    private var listeners: [SimulatorPort: TCPListener]
    private let firstKey: UInt64
    /// The ports that the poller knows.
    private var watched: Set<SimulatorPort> = []

    /// - Parameter firstKey: Listener n of `SimulatorPort.all` has this plus n.
    init(_ listeners: [SimulatorPort: TCPListener], firstKey: UInt64) {
        self.listeners = listeners
        self.firstKey = firstKey
    }

    var isEmpty: Bool { listeners.isEmpty }

    /// - Returns: nil while paused: an event may be of the moment before.
    func listener(on port: SimulatorPort) -> TCPListener? {
        watched.contains(port) ? listeners[port] : nil
    }

    /// Watches the unwatched ones; call it again if it throws.
    mutating func resume(_ poller: Poller) throws(SystemError) {
        for (index, port) in SimulatorPort.all.enumerated() where !watched.contains(port) {
            guard let listener = listeners[port] else { continue }
            try poller.add(listener.descriptor, key: firstKey + UInt64(index), interest: .read)
            watched.insert(port)
        }
    }

    mutating func pause(_ poller: Poller) {
        for port in watched {
            guard let listener = listeners[port] else { continue }
            // Fails only for one that the poller does not know, which is the wanted state.
            do throws(SystemError) { try poller.remove(listener.descriptor) } catch {}
        }
        watched = []
    }

    /// New clients are refused from now on.
    mutating func close(_ poller: Poller) {
        pause(poller)
        for listener in listeners.values { listener.close() }
        listeners = [:]
    }
}
