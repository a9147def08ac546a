@testable import HTTP2

/// A client and a server session that are joined in memory. `exchange` carries bytes both ways until both are silent.
final class Wire {
    let client: HTTP2ClientSession
    let server: HTTP2ServerSession
    var clientEvents: [HTTP2ClientEvent] = []
    var serverEvents: [HTTP2ServerEvent] = []

    init(
        wantedHeaders: [String] = [], settings: HTTP2ServerSettings = HTTP2ServerSettings(), connected: Bool = true
    ) throws {
        client = try HTTP2ClientSession(wantedHeaders: wantedHeaders)
        server = try HTTP2ServerSession(settings: settings)
        if connected { try exchange() }
    }

    func exchange() throws {
        while try clientToServer() || serverToClient() {}
    }

    /// Carries bytes one way. Returns true if there were any.
    @discardableResult
    func clientToServer() throws -> Bool {
        let bytes = try client.output()
        try server.receive(bytes)
        serverEvents += server.takeEvents()
        clientEvents += client.takeEvents()
        return !bytes.isEmpty
    }

    @discardableResult
    func serverToClient() throws -> Bool {
        let bytes = try server.output()
        try client.receive(bytes)
        clientEvents += client.takeEvents()
        serverEvents += server.takeEvents()
        return !bytes.isEmpty
    }

    /// Sends a push and returns its stream.
    func submit(_ payload: [UInt8] = Array("{}".utf8), path: String = "/3/device/00") throws -> Int32 {
        try client.submit(request(path), body: payload)
    }

    func answer(_ stream: Int32, _ status: String = "200", body: [UInt8] = [], frameLimit: Int = .max) throws {
        try server.respond(stream, headers: response(status), body: body, frameLimit: frameLimit)
    }

    var requests: [Request] { serverEvents.requests }
    var closed: [Closed] { clientEvents.compactMap(Closed.init) }
    var statuses: [Int32: Int] { clientEvents.statuses }
}

/// How a stream ended for the client.
struct Closed: Equatable {
    let stream: Int32
    let code: HTTP2ErrorCode
    let progress: Progress

    enum Progress: Equatable { case nothing, incomplete, complete }

    init(_ stream: Int32, _ code: HTTP2ErrorCode, _ progress: Progress) {
        self.stream = stream
        self.code = code
        self.progress = progress
    }

    init?(_ event: HTTP2ClientEvent) {
        guard case .streamClosed(let stream, let code, let written) = event else { return nil }
        let progress: Progress =
            switch written {
            case .nothing: .nothing
            case .incomplete: .incomplete
            case .complete: .complete
            }
        self.init(stream, code, progress)
    }
}

/// The one final answer of a stream.
struct Answer {
    let stream: Int32
    let status: Int
    let fields: HeaderList
    let endStream: Bool
}

struct GoAway: Equatable {
    let lastStream: Int32
    let code: HTTP2ErrorCode
    let debug: String
}

extension [HTTP2ClientEvent] {
    var answers: [Answer] {
        compactMap { event in
            guard case .headers(let stream, let status, let fields, let endStream) = event else { return nil }
            return Answer(stream: stream, status: status, fields: fields, endStream: endStream)
        }
    }

    var statuses: [Int32: Int] {
        Dictionary(answers.map { ($0.stream, $0.status) }) { $1 }
    }

    func body(of wanted: Int32) -> [UInt8] {
        var body: [UInt8] = []
        for case .data(let stream, let bytes) in self where stream == wanted { body += bytes }
        return body
    }

    var settings: [Int] {
        compactMap { event in
            guard case .settings(let limit) = event else { return nil }
            return limit
        }
    }

    var goAways: [GoAway] {
        compactMap { event in
            guard case .goAway(let lastStream, let code, let debug) = event else { return nil }
            return GoAway(lastStream: lastStream, code: code, debug: String(decoding: debug, as: UTF8.self))
        }
    }

    var pings: [UInt64] {
        compactMap { event in
            guard case .pingAck(let number) = event else { return nil }
            return number
        }
    }
}

extension [HTTP2ServerEvent] {
    var requests: [Request] {
        compactMap { event in
            guard case .request(let stream, let headers, let body) = event else { return nil }
            return Request(stream: stream, headers: headers, body: body)
        }
    }

    /// Streams that ended, with their codes.
    var closed: [Int32: HTTP2ErrorCode] {
        reduce(into: [:]) { closed, event in
            if case .streamClosed(let stream, let code) = event { closed[stream] = code }
        }
    }

    var pings: [UInt64] {
        compactMap { event in
            guard case .pingAck(let number) = event else { return nil }
            return number
        }
    }
}

struct Request {
    let stream: Int32
    let headers: HeaderList
    let body: [UInt8]
}

func request(_ path: String) -> HeaderBlock {
    var block = HeaderBlock()
    block.append(":method", "POST")
    block.append(":scheme", "https")
    block.append(":authority", "api.push.apple.com")
    block.append(":path", path)
    block.append("apns-topic", "com.example.shop")
    return block
}

func response(_ status: String) -> HeaderBlock {
    var block = HeaderBlock()
    block.append(":status", status)
    return block
}

extension HTTP2ClientSession {
    /// In no order.
    var openStreams: [Int32] { streams.indices.map { streams[$0].stream }.filter { $0 != 0 } }

    /// It takes no request any more.
    var isOver: Bool {
        do throws(HTTP2Error) {
            _ = try submit(request("/"), body: [])
            return false
        } catch {
            return error.code == .connectionRetired
        }
    }

    /// The events since the last call, also those of an answer that `forEachEvent` reports in short.
    func takeEvents() -> [HTTP2ClientEvent] {
        var events: [HTTP2ClientEvent] = []
        forEachEvent { note in
            switch note {
            case .event(let event): events.append(event)
            case .answered(let stream, let status):
                events.append(.headers(stream: stream, status: status, fields: HeaderList(), endStream: true))
                events.append(.streamClosed(stream: stream, errorCode: .noError, written: .complete(position: outputPosition)))
            }
        }
        return events
    }

    func output() throws -> [UInt8] {
        var bytes: [UInt8] = []
        while try gatherOutput(into: &bytes, limit: bytes.count + 1) {}
        return bytes
    }
}

extension HTTP2ServerSession {
    func takeEvents() -> [HTTP2ServerEvent] {
        var events: [HTTP2ServerEvent] = []
        forEachEvent { events.append($0) }
        return events
    }

    func output() throws -> [UInt8] {
        var bytes: [UInt8] = []
        while try gatherOutput(into: &bytes, limit: bytes.count + 1) {}
        return bytes
    }
}

extension HTTP2ClientSession {
    func receive(_ bytes: [UInt8]) throws(HTTP2Error) { try receive(bytes.span) }
}

extension HTTP2ServerSession {
    func receive(_ bytes: [UInt8]) throws(HTTP2Error) { try receive(bytes.span) }
}
