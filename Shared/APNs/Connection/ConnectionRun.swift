import HTTP2
import Logging
package import OpenSSL
import PushModel
import SystemIO

/// One connection without its event loop and its pool, for Tests/Benchmarks/InstructionCount, which passes the session's bytes itself. The
/// clocks stand still, so the same batches cost the same instructions.
package struct ConnectionRun: ~Copyable {
    /// The listener whose socket is connected, and carries no byte.
    private let listener: TCPListener
    private let loops: APNsEventLoops
    private var connection: APNsConnection
    private var queue = LaneQueue(maximumRequests: .max)
    /// The answers of finished batches so far.
    package private(set) var answered = 0

    private init(_ connection: consuming APNsConnection, _ listener: TCPListener, _ loops: APNsEventLoops) {
        self.connection = connection
        self.listener = listener
        self.loops = loops
    }

    /// - Parameter now: UNIX milliseconds.
    package static func begin(_ credential: APNsCredential, trust: TLSTrust, now: Int64) throws -> ConnectionRun {
        let listener = try TCPListener(host: "127.0.0.1", port: 0)
        let loops = try APNsEventLoops(threads: 1)
        var configuration = APNsPoolConfiguration()
        let start = ContinuousClock.now
        configuration.clock = APNsClock(now: { start }, wall: { now })
        let endpoint = APNsEndpoint(host: "localhost", port: listener.port, trust: trust)
        let context = PoolContext(
            id: 1, configuration: configuration, signer: ProviderTokenSigner(credential), endpoint: endpoint, environment: .production,
            service: .device, tls: try loops.context(trusting: trust), resolver: loops.resolver,
            loop: loops.pick(), board: PoolBoard(), gate: { _, _ in nil }, onFinished: { _ in }, onEvent: { _ in },
            logger: Logger(label: "apns"))
        let (poller, buffers, key) = (try Poller(), LoopBuffers(), SocketKey(pool: 1, connection: 1))
        let socket = try TCPSocket.connect(to: listener.address, timeout: .seconds(5))
        try poller.add(socket.descriptor, key: key.raw, interest: .read)
        let link = SecureLink(
            socket, try TLSSession(client: context.tls, serverName: endpoint.tlsName), address: listener.address, buffers)
        return ConnectionRun(try APNsConnection.over(link, context, key: key, poller: poller, buffers: buffers), listener, loops)
    }

    /// Queues batches as the pool does, and hands their requests to HTTP/2.
    /// - Parameter output: gets the bytes for the peer.
    package mutating func send(_ batches: [APNsBatch], into output: inout [UInt8]) throws {
        for batch in batches {
            _ = queue.append(Share(ledger: BatchLedger(batch), requests: batch.requests.indices, queuedAt: connection.now))
        }
        repeat {
            while try connection.session.gatherOutput(into: &output, limit: output.count + 65_536) {}
            connection.drainEvents()
        } while connection.fill(&queue)
    }

    /// - Parameter input: bytes from the peer.
    package mutating func receive(_ input: [UInt8]) throws {
        try connection.session.receive(input.span)
        connection.drainEvents()
        for finished in connection.finishedBatches { answered += finished.answers.count }
        connection.finishedBatches.removeAll(keepingCapacity: true)
        connection.news.removeAll(keepingCapacity: true)
    }
}
