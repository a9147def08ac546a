import Synchronization
import SystemIO

/// A proxy between clients and a server, on 127.0.0.1. A test chooses its faults for each direction while the link is in use. It has one
/// thread, and treats all connections alike unless `Connections` selects some.
///
/// It passes the end of one side on to the other: an end of stream as an end of stream, a reset as a reset.
package final class FaultProxy: Sendable {
    package enum Connections: Sendable {
        case all
        /// Existing connections keep their conditions.
        case new
    }

    package enum Side: Sendable {
        case client
        case server
    }

    /// The first bytes of a client that speaks TLS.
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
    /// Sends the number of connections so far for each new connection of a client.
    package let accepted = Signal<Int>()
    /// Sends a value for each connection that has lost a byte. From then on the proxy can only cut it.
    package let losses = Signal<Int>()

    /// How many bytes clients have sent, up to now.
    package var bytesFromClients: Int { traffic.fromClients.load(ordering: .relaxed) }
    /// How many bytes the server has sent, up to now.
    package var bytesFromServer: Int { traffic.fromServer.load(ordering: .relaxed) }
    /// How many connections there are.
    package var connections: Int { traffic.connections.load(ordering: .relaxed) }

    /// Connections of clients that must speak TLS and sent other bytes.
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
                // The listener closes with this thread, so that the test sees refused connections and not silence.
                listener.close()
            }
        }
    }

    deinit { commands.post(.stop) }

    /// Sets the conditions until the next call. The proxy cuts connections that lost bytes when their conditions change, because their
    /// streams have a hole.
    package func set(_ conditions: LinkConditions, for connections: Connections = .all) { commands.post(.set(conditions, connections)) }

    /// Resets every connection; new ones are accepted as the conditions say.
    package func cut() { commands.post(.cut) }

    /// Makes half-open connections. The proxy resets this side of each and does not notify the other side, whose bytes vanish until it
    /// leaves or the conditions change.
    package func lose(_ side: Side) { commands.post(.lose(side)) }

    /// New connections go there; existing ones stay where they are.
    /// - Throws: `ResolveError`
    package func redirect(toHost host: String = "127.0.0.1", port: Int) throws {
        commands.post(.redirect(try SocketAddress.resolve(host: host, port: port)[0]))
    }

    /// Ends the proxy and waits for its thread.
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
