import HTTP2
import OpenSSL
import SystemIO

/// A scenario's changes to one connection.
struct ActiveFaults {
    /// No byte is answered, not even TLS, until the loop resumes it.
    var isStalled = false
    var refusesTLS = false
    /// No more bytes are written.
    var isFrozen = false
    /// Requests are swallowed.
    var isSilent = false
    var freezesWhenEstablished = false
    var closesAfterCut = false
    /// Announced instead of the configured number.
    var streams: UInt32?
    /// Announced instead of the usual window.
    var window: Int?
    /// The request whose GOAWAY was sent already.
    var goAwayFor: Int32?

    mutating func begin(_ entrance: Entrance?) {
        switch entrance {
        case .refuseTLS: refusesTLS = true
        case .stallTLS: isStalled = true
        case .freeze: freezesWhenEstablished = true
        case .streams(let limit): streams = limit
        case .window(let bytes): window = bytes
        case .refuse, .wrongCertificate, .noALPN, nil: break
        }
    }
}

extension ServerConnection {
    /// Bytes that a client may send while its handshake is stalled: a ClientHello is much smaller.
    private static let maximumHeldBack = 65_536
    /// fatal, handshake_failure (RFC 8446 section 6.2).
    private static let handshakeFailure: [UInt8] = [21, 3, 3, 0, 2, 2, 40]

    /// Whether the client's bytes stay unread because of the scenario.
    func isHeldBack() throws(SystemError) -> Bool {
        if activeFaults.refusesTLS {
            _ = try socket.write(Self.handshakeFailure.span)
            end()
            return true
        }
        if activeFaults.isStalled, tls.pendingInput > Self.maximumHeldBack { end() }
        return activeFaults.isStalled
    }

    /// The stalled handshake goes on with the received bytes.
    func resumeHandshake() {
        activeFaults.isStalled = false
        do {
            try shakeHands()
        } catch {
            end()
        }
    }

    /// A connection that was open when another scenario began is healthy again, as far as it can be.
    func begin(_ place: ConnectionScenario) {
        scenario = place
        output.roundTrip = place.roundTrip
        do throws(HTTP2Error) {
            if activeFaults.window != nil { try http2?.updateSettings(initialWindowSize: HTTP2ServerSettings().initialWindowSize) }
        } catch {
            end()
        }
        if activeFaults.streams != nil { setStreams(UInt32(service.configuration.streams)) }
        (activeFaults.window, activeFaults.streams, activeFaults.isSilent) = (nil, nil, false)
    }

    /// By a request's fault.
    func apply(_ effect: ConnectionEffect, with pending: PendingStep) throws(HTTP2Error) {
        if case .goAway(let last, _, _, _) = effect, let stream = last.resolved(pending.stream), stream < pending.stream {
            activeFaults.goAwayFor = pending.stream
        }
        try apply(effect, causedBy: pending.stream)
    }

    /// By a request's fault or at a moment.
    /// - Parameter stream: The request; nil for a moment.
    func apply(_ effect: ConnectionEffect, causedBy stream: Int32?) throws(HTTP2Error) {
        switch effect {
        case .goAway(let last, let code, let debug, let closes):
            try http2?.goAway(lastStream: last.resolved(stream), code: HTTP2ErrorCode(rawValue: code), debug: debug)
            if closes { end() }
        case .close(let abruptly): close(abruptly: abruptly)
        case .cut(let closes): activeFaults.closesAfterCut = closes
        case .freeze: activeFaults.isFrozen = true
        case .streams(let limit):
            activeFaults.streams = limit
            setStreams(limit)
        case .window(let bytes):
            activeFaults.window = bytes
            try http2?.updateSettings(initialWindowSize: bytes)
        case .silence: activeFaults.isSilent = true
        case .answer: activeFaults.isSilent = false
        }
    }

    /// Whole frames as far as possible, then half of the answer's bytes, and no more.
    func writeHalf(of pending: PendingStep, on http2: HTTP2ServerSession) throws(HTTP2Error) {
        var whole: [UInt8] = []
        _ = try http2.gatherOutput(into: &whole, limit: .max)
        var part: [UInt8] = []
        _ = try write(pending, on: http2)
        _ = try http2.gatherOutput(into: &part, limit: .max)
        whole.append(contentsOf: part.prefix(max(1, part.count / 2)))
        do {
            try tls.write(whole.span)
            output.noteEncrypted(isWhole: true)
        } catch {
            end()
        }
        activeFaults.isFrozen = true
        if activeFaults.closesAfterCut { end() }
    }
}

extension ConnectionScenario.Blow {
    /// The result of the request: a GOAWAY that leaves it unprocessed is its end.
    func forced(on stream: Int32) -> ScriptedAnswer? {
        if case .goAway(let last, _, let debug, _) = effect, let processed = last.resolved(stream), processed < stream {
            return ScriptedAnswer(.goAway, answer: debug.isEmpty ? .accepted : Answer(status: 503))
        }
        return step
    }
}
