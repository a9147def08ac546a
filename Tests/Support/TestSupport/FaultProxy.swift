import Synchronization
import SystemIO

/// Stands between clients and a server on the way to 127.0.0.1 and breaks what goes through, when told to: a link whose faults can be chosen, for each
/// direction, while it is used. One thread; connections are told apart only where `Connections` says so.
///
/// What one side ends is told to the other as it was: an end of stream as one, a reset as a reset.
package final class FaultProxy: Sendable {
    package enum Connections: Sendable {
        case all
        /// Those that are there keep what they have.
        case new
    }

    package enum Side: Sendable {
        case client
        case server
    }

    /// How a client that speaks TLS begins.
    package enum Opening: Sendable {
        /// The first byte is that of a record.
        case record
        /// PostgreSQL's request for TLS comes first (PostgreSQL manual 55.2.10).
        case postgres
    }

    enum Command: Sendable {
        case set(LinkConditions, Connections)
        case cut
        case lose(Side)
        case redirect(SocketAddress)
        case stop
    }

    /// Where clients connect to, on 127.0.0.1.
    package let port: Int
    /// A value for each connection that a client made: how many there have been.
    package let accepted = Signal<Int>()
    /// A value for each connection of which a byte has vanished: from then on it can only be cut.
    package let losses = Signal<Int>()

    /// How many bytes clients have sent, up to now.
    package var bytesFromClients: Int { traffic.fromClients.load(ordering: .relaxed) }
    /// How many bytes the server has sent, up to now.
    package var bytesFromServer: Int { traffic.fromServer.load(ordering: .relaxed) }
    /// How many connections there are.
    package var connections: Int { traffic.connections.load(ordering: .relaxed) }

    /// Connections of clients that sent something else than TLS, where they must speak it.
    package var connectionsInClear: Int { traffic.inClear.load(ordering: .relaxed) }

    private let traffic = LinkTraffic()
    private let commands: Mailbox<Command>
    private let thread: SystemThread

    /// - Parameters:
    ///   - host: with `serverPort`, where the server is or will be: it is connected to when a client comes.
    ///   - listeningPort: 0 lets the kernel choose.
    ///   - opening: not nil where clients must speak TLS, which is looked at then.
    ///   - seed: draws the jitter.
    package init(
        toHost host: String = "127.0.0.1", port serverPort: Int, listeningOn listeningPort: Int = 0, opening: Opening? = nil,
        seed: UInt64 = 0
    ) throws {
        let server = try SocketAddress.resolve(host: host, port: serverPort)[0]
        let listener = try TCPListener(host: "127.0.0.1", port: listeningPort, backlog: 1024)
        let wakeUp = try WakeUp()
        let commands = Mailbox<Command>(wakeUp: wakeUp)
        let accepted = accepted
        let losses = losses
        let traffic = traffic
        port = listener.port
        self.commands = commands
        thread = try SystemThread.start(name: "fault-proxy") {
            do {
                let loop = try FaultProxyLoop(
                    server: server, listener: listener, wakeUp: wakeUp, commands: commands, accepted: accepted, losses: losses,
                    traffic: traffic, opening: opening, seed: seed
                )
                try loop.run()
            } catch {
                // The listener goes with this thread, so that the test sees refused connections instead of silence.
                listener.close()
            }
        }
    }

    deinit { commands.post(.stop) }

    /// From now on, until something else is set. Connections whose bytes vanished are cut when their conditions change: they could only go on with
    /// a hole in them.
    package func set(_ conditions: LinkConditions, for connections: Connections = .all) { commands.post(.set(conditions, connections)) }

    /// Resets every connection; new ones are accepted as the conditions say.
    package func cut() { commands.post(.cut) }

    /// Half-open connections: this side of each is reset, the other is told nothing, and what it sends vanishes until it leaves or the conditions
    /// change.
    package func lose(_ side: Side) { commands.post(.lose(side)) }

    /// New connections go there; existing ones stay where they are.
    /// - Throws: `ResolveError`
    package func redirect(toHost host: String = "127.0.0.1", port: Int) throws {
        commands.post(.redirect(try SocketAddress.resolve(host: host, port: port)[0]))
    }

    /// Ends everything and waits until it has ended.
    package func stop() {
        commands.post(.stop)
        thread.join()
    }
}

/// Counted on the proxy's thread, read on others.
final class LinkTraffic: Sendable {
    let fromClients = Atomic(0)
    let fromServer = Atomic(0)
    let connections = Atomic(0)
    let inClear = Atomic(0)

    func count(_ bytes: Int, fromClient: Bool) {
        if fromClient { fromClients.add(bytes, ordering: .relaxed) } else { fromServer.add(bytes, ordering: .relaxed) }
    }

    func noteInClear() { inClear.add(1, ordering: .relaxed) }
    func note(connections count: Int) { connections.store(count, ordering: .relaxed) }
}
