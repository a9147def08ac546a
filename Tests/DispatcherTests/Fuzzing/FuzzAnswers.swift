@testable import APNs
@testable import HTTP2

/// A connection with the bytes of APNs, without its socket: the session, its events, and the state that decides the next action.
final class FuzzAnswers {
    private static let maximumRequests = 64
    private static let body = Array(#"{"aps":{"alert":"hi"}}"#.utf8)

    private let session: HTTP2ClientSession
    private var state: ConnectionState
    private var inFlight: [Int32: InFlight] = [:]
    /// Submitted, and not ended yet.
    private var open: Set<Int32> = []
    private var bodies: [Int32: [UInt8]] = [:]
    private var submitted = 0
    private let now = ContinuousClock.now

    private init() throws(HTTP2Error) {
        // As a connection makes it.
        session = try HTTP2ClientSession(
            wantedHeaders: ["retry-after"], maximumResponseBody: APNsErrorBody.maximumBytes)
        state = ConnectionState(
            ConnectionState.Rules(
                maximumStreams: 16, pingAfter: .seconds(30), pingTimeout: .seconds(10), settingsTimeout: .seconds(10),
                maximumAge: .seconds(86_400), maximumRequests: 1 << 29), now: now)
    }

    /// - Parameter bytes: The first byte is the size of the pieces in which the others arrive. If it is odd, requests time out.
    static func run(_ bytes: [UInt8]) {
        guard let first = bytes.first else { return }
        do throws(HTTP2Error) {
            let connection = try FuzzAnswers()
            try connection.sendWhatMayGo()
            var rest = bytes.dropFirst()
            while !rest.isEmpty, !connection.state.isClosed, connection.session.wantsRead {
                let piece = Array(rest.prefix(max(1, Int(first))))
                rest = rest.dropFirst(piece.count)
                try connection.receive(piece)
                if !first.isMultiple(of: 2) { connection.giveUpTheOldest() }
                try connection.sendWhatMayGo()
            }
        } catch {
            // The connection would be closed.
        }
    }

    private func receive(_ bytes: [UInt8]) throws(HTTP2Error) {
        state.received(now: now)
        try session.receive(bytes.span)
        obeyEvents()
    }

    private func sendWhatMayGo() throws(HTTP2Error) {
        while submitted < Self.maximumRequests, state.freeStreams > 0 {
            var headers = HeaderBlock()
            headers.append(":method", "POST")
            headers.append(":scheme", "https")
            headers.append(":authority", "localhost")
            headers.append(":path", "/3/device/00")
            let stream: Int32
            do throws(HTTP2Error) {
                stream = try session.submit(headers, body: Self.body)
            } catch  where error.code == .connectionRetired {
                break
            }
            precondition(open.insert(stream).inserted, "a stream's number is used once")
            inFlight[stream] = InFlight(share: 0, request: submitted, index: submitted, sentAt: 0, deadline: now)
            state.requestSubmitted()
            submitted += 1
        }
        var output: [UInt8] = []
        while try session.gatherOutput(into: &output) { output.removeAll(keepingCapacity: true) }
        obeyEvents()
    }

    /// As at a request's deadline.
    private func giveUpTheOldest() {
        guard let stream = open.min(), inFlight.removeValue(forKey: stream) != nil else { return }
        bodies[stream] = nil
        session.reset(stream, .cancel)
        perform(state.timedOut())
        obeyEvents()
    }

    private func obeyEvents() {
        session.forEachEvent { obey($0) }
        // The effects of one event come with the next call.
        session.forEachEvent { obey($0) }
        let streams = session.streams.indices.map { session.streams[$0].stream }.filter { $0 != 0 }
        precondition(Set(streams) == open && streams.count == open.count, "session and account agree")
        precondition(state.inFlight == open.count, "and so does what decides")
        precondition(inFlight.count <= open.count, "nothing is waited for that has ended")
    }

    private func obey(_ note: HTTP2ClientNote) {
        switch note {
        case .event(let event): obey(event)
        case .answered(let stream, let status):
            precondition(open.remove(stream) != nil, "an answer to nothing")
            precondition((200...999).contains(status), "a final status")
            inFlight[stream]?.status = status
            ended(stream)
            perform(state.streamEnded())
        }
    }

    private func obey(_ event: HTTP2ClientEvent) {
        switch event {
        case .headers(let stream, let status, let fields, _):
            precondition(open.contains(stream), "an answer to nothing")
            precondition((200...999).contains(status), "a final status")
            inFlight[stream]?.status = status
            guard inFlight[stream] != nil, status != 200 else { return }
            bodies[stream] = []
            _ = fields["retry-after"]
        case .data(let stream, let bytes):
            precondition(open.contains(stream), "a body of nothing")
            bodies[stream]?.append(contentsOf: bytes)
        case .streamClosed(let stream, _, _):
            precondition(open.remove(stream) != nil, "a stream ends once")
            ended(stream)
            perform(state.streamEnded())
        case .settings(let limit):
            perform(state.settings(maximumStreams: limit))
            precondition((0...16).contains(state.streamLimit), "no more than we want")
        case .goAway(_, let code, let debug):
            perform(state.goAway(reason: APNsErrorBody(debug).reason ?? (code == .noError ? nil : code.description)))
        case .pingAck: state.pongReceived()
        }
    }

    private func ended(_ stream: Int32) {
        let body = bodies.removeValue(forKey: stream) ?? []
        precondition(body.count <= APNsErrorBody.maximumBytes, "bounded")
        guard let entry = inFlight.removeValue(forKey: stream), entry.status != 0 else { return }
        if entry.status == 200 {
            perform(state.accepted())
        } else {
            for action in state.answered(status: entry.status, reason: APNsErrorBody(body).reason) { perform(action) }
        }
    }

    private func perform(_ action: ConnectionState.Action?) {
        if case .retire = action { precondition(state.freeStreams == 0, "who is retired takes nothing") }
    }
}
