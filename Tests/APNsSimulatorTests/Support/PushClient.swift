import APNsSimulator
import HTTP2
import OpenSSL
import SystemIO
import TestIdentity

/// A small blocking client over a real socket and TLS, which can also break the rules. Belongs to one test and one thread.
final class PushClient {
    struct Failure: Error, CustomStringConvertible {
        let description: String
    }

    struct Response: Equatable {
        var status = 0
        var apnsID: String?
        var uniqueID: String?
        var contentType: String?
        var requestID: String?
        var channelID: String?
        var body = ""
    }

    private static let patience = Duration.seconds(60)

    let socket: TCPSocket
    private let tls: TLSSession
    let http2: HTTP2ClientSession
    private let poller: Poller
    private var buffer = [UInt8](repeating: 0, count: 65_536)
    private(set) var responses: [Int32: Response] = [:]
    private(set) var closed: [Int32: HTTP2ErrorCode] = [:]
    /// The streams that are closed, in the order in which they were.
    private(set) var order: [Int32] = []
    /// DATA frames that have come, by stream.
    private(set) var pieces: [Int32: Int] = [:]
    private(set) var limits: [Int] = []
    private(set) var goAways: [(lastStream: Int32, code: HTTP2ErrorCode, debug: String)] = []
    private(set) var pongs: Set<UInt64> = []
    var submitted = 0
    /// The server's limit allows one more.
    var hasFreeStream: Bool { submitted - closed.count < limits.last ?? 1000 }
    /// The server has closed the connection.
    private(set) var isOver = false

    /// - Parameter firstFlight: Sent with the last bytes of the handshake, so that the server reads both at once.
    init(
        port: Int, alpn: [String] = ["h2"], certificate: TLSIdentity? = nil, firstFlight: TestPush? = nil
    ) throws {
        let identity = try TestIdentity.shared.get()
        let context = try TLSContext.client(trust: .file(identity.certificateFile), certificate: certificate, alpn: alpn)
        tls = try TLSSession(client: context, serverName: "localhost")
        let address = try SocketAddress.resolve(host: "127.0.0.1", port: port)[0]
        socket = try TCPSocket.connect(to: address, timeout: .seconds(60))
        http2 = try HTTP2ClientSession(
            wantedHeaders: ["apns-id", "apns-unique-id", "content-type", "apns-request-id", "apns-channel-id"])
        poller = try Poller()
        try poller.add(socket.descriptor, key: 1, interest: .read)
        try shakeHands(firstFlight)
    }

    private func shakeHands(_ firstFlight: TestPush?) throws {
        var isComplete = false
        while !isComplete {
            isComplete = try tls.handshake() == .complete
            if isComplete, let firstFlight {
                try submit(firstFlight)
                try flush()
            }
            try sendCiphertext()
            if !isComplete, try !readSocket() { throw Failure(description: "closed during the handshake") }
        }
    }

    /// Sends and receives until the condition holds.
    func run(until condition: (PushClient) -> Bool) throws {
        try exchange()
        let deadline = ContinuousClock.now + Self.patience
        while !condition(self) {
            guard ContinuousClock.now < deadline else {
                throw Failure(description: "nothing more came: \(responses), \(closed), \(goAways)")
            }
            guard !isOver else { throw Failure(description: "the server closed the connection: \(responses), \(closed), \(goAways)") }
            if try !readSocket() { isOver = true }
            try exchange()
        }
    }

    /// Waits until the server has read everything that was sent before: sends a PING and waits for its answer.
    func roundTrip(_ number: UInt64) throws {
        http2.ping(number)
        try run { $0.pongs.contains(number) }
    }

    /// Sends the submitted requests and reads the bytes that have come, without waiting for more.
    func poll() throws { try exchange() }

    /// - Returns: false at the end of the stream.
    private func readSocket() throws -> Bool {
        _ = try poller.wait(timeout: .seconds(1))
        do {
            switch try socket.read(into: &buffer) {
            case .wouldBlock: return true
            case .endOfStream: return false
            case .bytes(let count):
                let arrived = Array(buffer.prefix(count))
                tls.receive(arrived.span)
                return true
            }
        } catch  where error.operation == "recv" {
            return false
        }
    }

    private func exchange() throws {
        var plaintext: [UInt8] = []
        if !isOver {
            switch try tls.read(into: &plaintext) {
            case .bytes: try http2.receive(plaintext.span)
            case .incomplete: break
            case .closed: isOver = true
            }
        }
        http2.forEachEvent { note($0) }
        try flush()
        http2.forEachEvent { note($0) }
    }

    private func flush() throws {
        var hasMore = true
        while hasMore {
            var output: [UInt8] = []
            hasMore = try http2.gatherOutput(into: &output)
            if !output.isEmpty { try write(output) }
        }
        try sendCiphertext()
    }

    private func sendCiphertext() throws {
        do throws(SystemError) {
            try tls.withOutput { bytes throws(SystemError) in
                switch try socket.write(bytes) {
                case .bytes(let count): count
                default: 0
                }
            }
        } catch {
            // The server has closed while bytes were on their way to it.
            isOver = true
        }
    }

    /// Any bytes, as plaintext inside TLS.
    func write(_ bytes: [UInt8]) throws {
        try tls.write(bytes.span)
    }

    private func note(_ note: HTTP2ClientNote) {
        switch note {
        case .answered(let stream, let status):
            self.note(.headers(stream: stream, status: status, fields: HeaderList(), endStream: true))
            self.note(.streamClosed(stream: stream, errorCode: .noError, written: .complete(position: http2.outputPosition)))
        case .event(let event): self.note(event)
        }
    }

    private func note(_ event: HTTP2ClientEvent) {
        switch event {
        case .headers(let stream, let status, let fields, _):
            responses[stream] = Response(
                status: status, apnsID: fields["apns-id"], uniqueID: fields["apns-unique-id"], contentType: fields["content-type"],
                requestID: fields["apns-request-id"], channelID: fields["apns-channel-id"])
        case .data(let stream, let bytes):
            responses[stream]?.body += String(decoding: bytes, as: UTF8.self)
            pieces[stream, default: 0] += 1
        case .streamClosed(let stream, let code, _):
            closed[stream] = code
            order.append(stream)
        case .settings(let limit): limits.append(limit)
        case .goAway(let last, let code, let debug): goAways.append((last, code, String(decoding: debug, as: UTF8.self)))
        case .pingAck(let number): pongs.insert(number)
        }
    }

    func close() { socket.close() }
}
