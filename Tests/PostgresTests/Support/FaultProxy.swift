import Dispatch
import Postgres
import Synchronization

/// A TCP proxy before PostgreSQL that misbehaves on a keyword in the client's bytes.
final class FaultProxy: Sendable {
    enum Fault: Sendable {
        /// From the keyword on the proxy forwards nothing in either direction. The connections stay open.
        case freeze(at: String)
        /// The keyword reaches the server. The proxy awaits and keeps the answer, and then cuts both sides.
        case cutAfterAnswer(to: String)
        /// The proxy keeps the keyword and cuts both sides.
        case cutBefore(String)
        /// The proxy accepts, does not connect to the server, and never answers.
        case silence
    }

    let port: UInt16
    private let listener: Socket
    private let serverPort: UInt16
    private let fault: Fault
    private let open = Mutex<[Socket]>([])
    private let accepted = Mutex(0)

    /// - Parameter serverPort: The port of PostgreSQL on 127.0.0.1.
    init(to serverPort: UInt16, _ fault: Fault) throws {
        (listener, port) = try Socket.listen()
        self.serverPort = serverPort
        self.fault = fault
        run { $0.acceptAll() }
    }

    /// How many clients came.
    var connections: Int { accepted.withLock { $0 } }

    func stop() {
        listener.shutDown()
        for socket in open.withLock({ $0 }) { socket.shutDown() }
    }

    private func run(_ body: @escaping @Sendable (FaultProxy) -> Void) {
        DispatchQueue(label: "fault-proxy").async { body(self) }
    }

    private func acceptAll() {
        while let client = listener.accept() {
            accepted.withLock { $0 += 1 }
            open.withLock { $0.append(client) }
            if case .silence = fault { continue }
            guard let server = try? Socket.connect(port: serverPort) else {
                client.shutDown()
                continue
            }
            open.withLock { $0.append(server) }
            let pipe = Pipe(client: client, server: server, fault: fault)
            run { _ in pipe.forwardRequests() }
            run { _ in pipe.forwardAnswers() }
        }
        listener.close()
    }
}

/// One proxied connection.
private final class Pipe: Sendable {
    private enum Mode { case forward, freeze, cutAtNextAnswer }

    private let client: Socket
    private let server: Socket
    private let fault: FaultProxy.Fault
    private let mode = Mutex(Mode.forward)

    init(client: Socket, server: Socket, fault: FaultProxy.Fault) {
        self.client = client
        self.server = server
        self.fault = fault
    }

    func forwardRequests() {
        while case let bytes = client.read(), !bytes.isEmpty {
            let text = String(decoding: bytes, as: UTF8.self)
            switch fault {
            case .freeze(let keyword) where text.contains(keyword):
                mode.withLock { $0 = .freeze }
                return
            case .cutBefore(let keyword) where text.contains(keyword):
                return cut()
            case .cutAfterAnswer(let keyword) where text.contains(keyword):
                mode.withLock { $0 = .cutAtNextAnswer }
                server.write(bytes)
            default: server.write(bytes)
            }
        }
        server.shutDown()
    }

    func forwardAnswers() {
        while case let bytes = server.read(), !bytes.isEmpty {
            switch mode.withLock({ $0 }) {
            case .forward: client.write(bytes)
            case .freeze: break
            case .cutAtNextAnswer: return cut()
            }
        }
        // A frozen connection stays open for the client.
        if case .forward = mode.withLock({ $0 }) { client.shutDown() }
    }

    private func cut() {
        client.shutDown()
        server.shutDown()
    }
}
