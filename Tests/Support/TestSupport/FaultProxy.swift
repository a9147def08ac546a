import Synchronization
import SystemIO

/// Stands between a client and a server on 127.0.0.1 and breaks what goes through, when told to.
package final class FaultProxy: Sendable {
    package enum Mode: Sendable, Equatable {
        /// Everything goes through.
        case forwarding
        /// Nothing is read any more: the peers' buffers fill up, nothing is lost. Forwarding again goes on where it stopped.
        case paused
        /// Bytes of both directions are read and vanish; new connections are accepted and answered by silence: a network that is gone
        /// without saying so.
        case blackHole
        /// The server hears the client; the client hears nothing any more.
        case deafClient
        /// New connections are closed at once; existing ones are forwarded.
        case refusing
    }

    enum Command: Sendable {
        case mode(Mode)
        case cut
        case stop
    }

    /// Where clients connect to, on 127.0.0.1.
    package let port: Int
    /// A value for each connection that a client made: how many there have been.
    package let accepted = Signal<Int>()

    /// How many bytes clients have sent, up to now.
    package var bytesFromClients: Int { clientBytes.total }

    private let clientBytes = ByteCount()
    private let commands: Mailbox<Command>
    private let thread: SystemThread

    /// - Parameters: where the server is.
    package init(toHost host: String = "127.0.0.1", port serverPort: Int) throws {
        let server = try SocketAddress.resolve(host: host, port: serverPort)[0]
        let listener = try TCPListener(host: "127.0.0.1", port: 0)
        let wakeUp = try WakeUp()
        let commands = Mailbox<Command>(wakeUp: wakeUp)
        let accepted = accepted
        let clientBytes = clientBytes
        port = listener.port
        self.commands = commands
        thread = SystemThread.start(name: "fault-proxy") {
            do {
                let loop = try FaultProxyLoop(
                    server: server, listener: listener, wakeUp: wakeUp, commands: commands, accepted: accepted, clientBytes: clientBytes)
                try loop.run()
            } catch {
                // The listener goes with this thread, so that the test sees refused connections instead of silence.
                listener.close()
            }
        }
    }

    deinit { commands.post(.stop) }

    /// Connections whose bytes vanished are cut when the mode changes: they could only go on with a hole in them.
    package func set(_ mode: Mode) { commands.post(.mode(mode)) }

    /// Resets every connection; new ones are accepted as the mode says.
    package func cut() { commands.post(.cut) }

    /// Ends everything and waits until it has ended.
    package func stop() {
        commands.post(.stop)
        thread.join()
    }
}

/// Counted on the proxy's thread, read on others.
final class ByteCount: Sendable {
    private let count = Atomic(0)

    var total: Int { count.load(ordering: .relaxed) }

    func add(_ bytes: Int) { count.add(bytes, ordering: .relaxed) }
}
