import HTTP2
import OpenSSL
import Synchronization
import SystemIO
import TestIdentity
import TestSupport

/// One request as a scripted server got it.
struct ScriptedRequest: Sendable {
    /// Connections count from 1.
    let connection: Int
    let stream: Int32
    let path: String
    let apnsID: String
    let authorization: String
    let headers: HeaderList
    let body: [UInt8]

    /// Of the batch that `APNsBatch.make` made.
    var tag: UInt64 { number(32..<48) }
    var index: Int { Int(number(48..<64)) }

    private func number(_ digits: Range<Int>) -> UInt64 {
        let hex = path.dropFirst("/3/device/".count)
        return UInt64(hex.dropFirst(digits.lowerBound).prefix(digits.count), radix: 16) ?? .max
    }
}

/// A server over TLS and HTTP/2 that does exactly what a test says, even if it breaks the protocol.
///
/// Each connection has a thread. `onRequest` runs there and answers through its `ServerHand`, or leaves the answer to a later `perform`.
final class ScriptedServer: Sendable {
    let port: Int
    let requests = Signal<ScriptedRequest>()
    /// Each connection after its handshake.
    let connections = Signal<ScriptedConnection>()
    /// Connections that ended, and whether they received a byte of HTTP/2.
    let ended = Signal<(number: Int, heardHTTP2: Bool)>()
    /// Streams that clients reset.
    let resets = Signal<(stream: Int32, code: HTTP2ErrorCode)>()
    private let listener: TCPListener
    private let wakeUp: WakeUp
    private let open = Mutex<[ScriptedConnection]>([])
    private let isStopped = Atomic(false)

    typealias Handler = @Sendable (ScriptedRequest, ServerHand) -> Void

    struct Behaviour: Sendable {
        var alpn = ["h2"]
        var streams = 1000
        /// The bytes that a client may send before the server grants more, in all streams together and in one.
        var connectionWindow = 65_535
        var streamWindow = 65_535
        var usesStranger = false
        /// The server reads the bytes of TLS and never answers.
        var isDumb = false
        /// Clients must show a certificate of one of the authorities in this file.
        var clientTrust: String?
    }

    init(_ behaviour: Behaviour = Behaviour(), onRequest: @escaping Handler = { $1.accept($0) }) throws {
        let identity = try TestIdentity.shared.get()
        let context = try TLSContext.server(
            certificateFile: behaviour.usesStranger ? identity.strangerFile : identity.certificateFile,
            keyFile: behaviour.usesStranger ? identity.strangerKeyFile : identity.keyFile, alpn: behaviour.alpn,
            clientTrust: behaviour.clientTrust)
        listener = try TCPListener(host: "127.0.0.1", port: 0)
        wakeUp = try WakeUp()
        port = listener.port
        try SystemThread.start(name: "scripted") { [self] in
            do { try accept(context, behaviour, onRequest) } catch { listener.close() }
        }
    }

    private func accept(_ context: TLSContext, _ behaviour: Behaviour, _ onRequest: @escaping Handler) throws {
        let poller = try Poller()
        try poller.add(listener.descriptor, key: 0, interest: .read)
        try poller.add(wakeUp.descriptor, key: 1, interest: .read)
        var number = 0
        while !isStopped.load(ordering: .acquiring) {
            _ = try poller.wait(timeout: nil)
            while let socket = try listener.accept() {
                number += 1
                let connection = try ScriptedConnection(number: number, socket)
                open.withLock { $0.append(connection) }
                let count = number
                try SystemThread.start(name: "scripted-\(number)") { [self] in
                    let loop = ScriptedLoop(
                        connection, behaviour, requests: requests, connections: connections, resets: resets, onRequest: onRequest)
                    do { try loop.run(context) } catch { socket.close() }
                    ended.send((count, loop.heardHTTP2))
                }
            }
        }
        listener.close()
    }

    /// Ends everything.
    func stop() {
        isStopped.store(true, ordering: .releasing)
        wakeUp.signal()
        for connection in open.withLock({ $0 }) { connection.perform { $0.close() } }
    }
}

/// A test's access to one connection.
final class ScriptedConnection: Sendable {
    let number: Int
    let socket: TCPSocket
    let wakeUp: WakeUp
    let orders: Mailbox<@Sendable (ServerHand) -> Void>

    init(number: Int, _ socket: TCPSocket) throws {
        self.number = number
        self.socket = socket
        wakeUp = try WakeUp()
        orders = Mailbox(wakeUp: wakeUp)
    }

    private let pongs = Signal<UInt64>()

    func heardPong(_ number: UInt64) { pongs.send(number) }

    /// Returns when the client has answered a PING, and so has read and sent everything before it.
    func roundTrip() async throws {
        perform { $0.session.ping(7) }
        _ = try await pongs.next()
    }

    /// Runs an order on the connection's thread.
    func perform(_ order: @escaping @Sendable (ServerHand) -> Void) {
        orders.post(order)
    }
}

/// The operations that a script may do on a connection's thread.
final class ServerHand {
    let session: HTTP2ServerSession
    var isClosing = false
    /// Close with RST instead of FIN.
    var isRude = false
    /// Bytes to send as they are, frames or not.
    var raw: [UInt8] = []
    /// Bytes to send after the TLS records, encrypted or not.
    var rawAfterTLS: [UInt8] = []

    init(_ session: HTTP2ServerSession) { self.session = session }

    func accept(_ request: ScriptedRequest) { answer(request.stream, 200) }

    func answer(_ stream: Int32, _ status: Int, _ reason: String? = nil) {
        answer(stream, status, text: reason.map { #"{"reason":"\#($0)"}"# } ?? "")
    }

    func answer(_ stream: Int32, _ status: Int, text: String, frameLimit: Int = .max, headers: [(String, String)] = []) {
        var block = HeaderBlock()
        block.append(":status", "\(status)")
        for (name, value) in headers { block.append(name, value) }
        attempt { try session.respond(stream, headers: block, body: Array(text.utf8), frameLimit: frameLimit) }
    }

    func goAway(last: Int32, _ text: String = "", code: HTTP2ErrorCode = .noError) {
        attempt { try session.goAway(lastStream: last, code: code, debug: Array(text.utf8)) }
    }

    func settings(_ streams: Int) { attempt { try session.updateSettings(maxConcurrentStreams: streams) } }
    func reset(_ stream: Int32, _ code: HTTP2ErrorCode) { session.reset(stream, code) }
    func close() { isClosing = true }
    func kill() { (isClosing, isRude) = (true, true) }

    private func attempt(_ work: () throws -> Void) {
        do { try work() } catch { isClosing = true }
    }
}

/// The loop of one connection's thread: a poller and blocking writes.
final class ScriptedLoop {
    private let connection: ScriptedConnection
    private let behaviour: ScriptedServer.Behaviour
    private let requests: Signal<ScriptedRequest>
    private let connections: Signal<ScriptedConnection>
    private let resets: Signal<(stream: Int32, code: HTTP2ErrorCode)>
    private let onRequest: ScriptedServer.Handler
    private(set) var heardHTTP2 = false

    init(
        _ connection: ScriptedConnection, _ behaviour: ScriptedServer.Behaviour, requests: Signal<ScriptedRequest>,
        connections: Signal<ScriptedConnection>, resets: Signal<(stream: Int32, code: HTTP2ErrorCode)>,
        onRequest: @escaping ScriptedServer.Handler
    ) {
        self.connection = connection
        self.behaviour = behaviour
        self.requests = requests
        self.connections = connections
        self.resets = resets
        self.onRequest = onRequest
    }

    func run(_ context: TLSContext) throws {
        let poller = try Poller()
        try poller.add(connection.socket.descriptor, key: 0, interest: .read)
        try poller.add(connection.wakeUp.descriptor, key: 1, interest: .read)
        let tls = try TLSSession(server: context)
        var settings = HTTP2ServerSettings()
        settings.maxConcurrentStreams = behaviour.streams
        settings.connectionWindow = behaviour.connectionWindow
        settings.initialWindowSize = behaviour.streamWindow
        let hand = ServerHand(try HTTP2ServerSession(settings: settings))
        var isSecure = false
        var buffer = [UInt8](repeating: 0, count: 65_536)
        defer { connection.socket.close() }
        while !hand.isClosing {
            let events = try poller.wait(timeout: nil)
            if events.contains(where: { $0.key == 1 }) { connection.wakeUp.clear() }
            if events.contains(where: { $0.key == 0 }) {
                switch try connection.socket.read(into: &buffer) {
                case .bytes(let count): tls.receive(buffer.span.extracting(first: count))
                case .wouldBlock: break
                case .endOfStream: return
                }
            }
            if behaviour.isDumb {
                for order in connection.orders.takeAll() { order(hand) }
                continue
            }
            if !isSecure {
                let result = try handshake(tls)
                isSecure = result == .complete
                if isSecure { connections.send(connection) }
            }
            if isSecure { try serve(hand, tls) }
        }
        if hand.isRude { try connection.socket.resetOnClose() }
    }

    private func handshake(_ tls: TLSSession) throws -> TLSSession.HandshakeResult {
        defer { flush(tls) }
        return try tls.handshake()
    }

    private func serve(_ hand: ServerHand, _ tls: TLSSession) throws {
        for order in connection.orders.takeAll() { order(hand) }
        var plaintext: [UInt8] = []
        let result = try tls.read(into: &plaintext)
        if !plaintext.isEmpty {
            heardHTTP2 = true
            try hand.session.receive(plaintext.span)
        }
        var events: [HTTP2ServerEvent] = []
        hand.session.forEachEvent { events.append($0) }
        for event in events {
            if case .pingAck(let number) = event { connection.heardPong(number) }
            if case .streamClosed(let stream, let code) = event, code != .noError { resets.send((stream, code)) }
            guard case .request(let stream, let headers, let body) = event else { continue }
            let request = ScriptedRequest(
                connection: connection.number, stream: stream, path: headers[":path"] ?? "", apnsID: headers["apns-id"] ?? "",
                authorization: headers["authorization"] ?? "", headers: headers, body: body)
            onRequest(request, hand)
            requests.send(request)
        }
        if !hand.isRude {
            var output: [UInt8] = []
            while try hand.session.gatherOutput(into: &output, limit: output.count + 65_536) {}
            output += hand.raw
            hand.raw = []
            try tls.write(output.span)
            flush(tls, then: hand.rawAfterTLS)
            hand.rawAfterTLS = []
        }
        if result == .closed { hand.isClosing = true }
    }

    /// Blocks until the socket took everything; the answers of a test are small.
    private func flush(_ tls: TLSSession, then raw: [UInt8] = []) {
        // One array, so that the client reads all of it at once.
        var output = tls.takeOutput() + raw
        while !output.isEmpty {
            do {
                if case .bytes(let count) = try connection.socket.write(output.span) { output.removeFirst(count) }
            } catch { return }
        }
    }
}
