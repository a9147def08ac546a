import HTTP2
import Logging
import OpenSSL
import SystemIO

/// One client: its socket, TLS and HTTP/2, and its proof of its right to push. Belongs to one loop's thread.
final class ServerConnection {
    /// The most ciphertext that may wait for the client: with more, no more is read from it until it takes some.
    private static let maximumBacklog = 1 << 20
    /// The most bytes of a body that are read. A request with more is answered at once, and its stream ends with the answer.
    private static let maximumBody = 65_536
    /// The text that APNs has been seen to send in its GOAWAY (jchambers/pushy, issue 356).
    private static let tooManyStreams = Array("Maximum active streams violated for this endpoint.".utf8)
    /// How long a connection may stay after the idle GOAWAY.
    private static let patienceWithIdle = Duration.seconds(60)

    let number: UInt32
    let environment: SimulatorEnvironment
    /// Whether the port is for channels, not for pushes.
    let isManagement: Bool
    let socket: TCPSocket
    let service: SharedService
    let tls: TLSSession
    let output: ConnectionOutput
    /// nil until TLS is up and `h2` agreed.
    private(set) var http2: HTTP2ServerSession?
    /// The connection's place in the scenario; nil without one.
    var scenario: ConnectionScenario?
    /// The scenario's changes here.
    var activeFaults = ActiveFaults()
    var check: RequestCheck
    var gate: StreamGate
    var answers: AnswerWriter
    var random = FastRandom()
    /// Requests are swallowed because of a command.
    private var isSilenced = false
    /// The simulator is going down, and has announced it: every later request is answered `Shutdown`.
    var isLeaving = false
    /// Later steps, by stream.
    private var late: [Int32: PendingStep] = [:]
    private var unscheduled: [(stream: Int32, delay: Duration)] = []
    /// When the client last sent anything, a PING for one.
    private(set) var lastArrival = ContinuousClock.now
    /// When the idle GOAWAY was sent.
    var idleSince: ContinuousClock.Instant?
    private(set) var isOver = false
    /// The client has ended its side.
    private var hasReadEnd = false
    /// No answer can reach the client: the socket is broken, or a reset ends it.
    private var isBroken = false
    private var interest: Poller.Interest = .read
    private var wantedInterest: Poller.Interest = .read

    init(
        number: UInt32, port: SimulatorPort, socket: TCPSocket, service: SharedService, scenario: ConnectionScenario?
    ) throws(TLSError) {
        self.number = number
        environment = port.environment
        isManagement = port.isManagement
        self.socket = socket
        self.service = service
        let configuration = service.configuration
        self.scenario = scenario
        activeFaults.begin(scenario?.entrance)
        tls = try TLSSession(server: scenario?.certificateContext ?? service.currentTLS)
        output = ConnectionOutput(socket, tls)
        output.roundTrip = scenario?.roundTrip ?? .zero
        check = RequestCheck(
            authority: ConnectionAuthority(environment: environment, keyRing: service.keyRing, updates: service.tokenUpdates))
        gate = StreamGate(
            streams: activeFaults.streams ?? UInt32(configuration.streams), isGated: configuration.streamGate,
            isPenalised: configuration.streamPenalty)
        answers = AnswerWriter(hasUniqueID: environment == .sandbox)
    }

    /// HTTP/2 has begun.
    var isEstablished: Bool { http2 != nil }

    func isMeant(by selection: APNsSimulator.Selection) -> Bool {
        switch selection {
        case .all: true
        case .environment(let environment): environment == self.environment
        case .connection(let number): number == Int(self.number)
        }
    }

    // MARK: Bytes in

    /// Reads from the socket, and answers.
    func receive(_ scratch: inout ConnectionScratch) {
        guard !isOver else { return }
        do {
            switch try socket.read(into: &scratch.ciphertext) {
            case .wouldBlock: return
            case .endOfStream:
                hasReadEnd = true
                return end()
            case .bytes(let count):
                lastArrival = .now
                tls.receive(scratch.ciphertext.span.extracting(first: count))
            }
            guard try !isHeldBack() else { return }
            if http2 == nil { try shakeHands() }
            if http2 != nil {
                defer { service.writeJournal() }
                try readRequests(&scratch)
            }
        } catch {
            service.logger.debug(
                "A connection failed", metadata: [SimulatorLogKey.connection: "\(number)", SimulatorLogKey.error: "\(error)"])
            if error is SystemError { isBroken = true }
            // Queued bytes may hold the reason for the client: an alert, a GOAWAY.
            flush(&scratch)
            return end()
        }
        flush(&scratch)
    }

    func shakeHands() throws {
        guard try tls.handshake() == .complete else { return }
        // HTTP/2 over TLS needs ALPN (RFC 9113 section 3.2); but APNs serves clients that offer none, as aioapns does. A client that offers
        // only others was refused in the handshake.
        guard tls.negotiatedALPN ?? "h2" == "h2" else { return end() }
        var settings = HTTP2ServerSettings()
        settings.maxConcurrentStreams = Int(gate.limit)
        settings.maximumBody = Self.maximumBody
        settings.tooManyStreamsText = Self.tooManyStreams
        if let window = activeFaults.window { settings.initialWindowSize = window }
        if scenario?.entrance == .noALPN { return end() }
        // nil also if clients are not asked for one.
        let certificate = tls.peerCertificate.map { ProviderCertificate($0) }
        if let certificate { settings.maxConcurrentStreams = Int(present(certificate)) }
        http2 = try HTTP2ServerSession(settings: settings)
        activeFaults.isFrozen = activeFaults.freezesWhenEstablished
        if isLeaving { sayGoodBye() }
        if let certificate, !certificate.environments.contains(environment) { try refuseEnvironment() }
    }

    private func readRequests(_ scratch: inout ConnectionScratch) throws {
        guard let http2 else { return }
        let now = service.configuration.clock()
        while !isOver {
            scratch.plaintext.removeAll(keepingCapacity: true)
            let result = try tls.read(into: &scratch.plaintext)
            if case .closed = result { return end() }
            guard case .bytes = result else { return }
            try http2.receive(scratch.plaintext.span)
            try http2.forEachEvent { event in
                if !isOver, case .request(let stream, let headers, let body) = event { try take(stream, headers, body, now: now) }
            }
        }
    }

    // MARK: Bytes out

    /// Sends pending output, as far as the client takes it.
    func flush(_ scratch: inout ConnectionScratch) {
        do {
            var hasMore = true
            repeat {
                // The bound is for making output, not for sending it: else a full backlog would never get smaller.
                if output.pending < Self.maximumBacklog { hasMore = try encrypt(&scratch) }
                try output.send()
            } while hasMore && !output.waitsForSocket && output.pending < Self.maximumBacklog
            if let http2, http2.isFinished, output.pending == 0 { end() }
        } catch {
            if error is SystemError { isBroken = true }
            end()
        }
        wantedInterest = output.pending < Self.maximumBacklog ? .read : []
        if output.waitsForSocket { wantedInterest.insert(.write) }
    }

    /// - Returns: Whether there may be more frames.
    private func encrypt(_ scratch: inout ConnectionScratch) throws -> Bool {
        guard let http2, !activeFaults.isFrozen else { return false }
        scratch.output.removeAll(keepingCapacity: true)
        let hasMore = try http2.gatherOutput(into: &scratch.output)
        if !scratch.output.isEmpty { try tls.write(scratch.output.span) }
        output.noteEncrypted(isWhole: !hasMore)
        return hasMore
    }

    // MARK: For the loop

    /// Requests are swallowed: by command, by the scenario, or because the output is frozen.
    var isSilent: Bool { isSilenced || activeFaults.isSilent || activeFaults.isFrozen }

    /// Makes the connection silent by command, which overrules the scenario.
    func setSilent(_ isSilent: Bool) {
        isSilenced = isSilent
        if !isSilent { activeFaults.isSilent = false }
    }

    func end() { isOver = true }

    /// - Parameter abruptly: Closes with a TCP reset.
    func close(abruptly: Bool) {
        if abruptly {
            isBroken = true
            // Fails only for a socket that is closed already, which is the wanted state.
            do throws(SystemError) { try socket.resetOnClose() } catch {}
        }
        end()
    }

    /// Does what follows the end: TLS's close_notify, and the further life of the socket.
    /// - Returns: nil if no byte reaches the client any more, or none should.
    func takeLeave(bytes: Int, until deadline: ContinuousClock.Instant) -> LingeringSocket? {
        guard !isBroken else { return nil }
        if !activeFaults.isFrozen { tls.shutdown() }
        return LingeringSocket(socket, output, hasReadEnd: hasReadEnd, bytes: bytes, until: deadline)
    }

    /// When the idle GOAWAY is due; once it was sent, when to close the connection in any case.
    func idleDeadline(_ timeout: Duration) -> ContinuousClock.Instant {
        guard let idleSince else { return lastArrival + timeout }
        return max(lastArrival, idleSince) + min(timeout, Self.patienceWithIdle)
    }

    func postpone(_ step: PendingStep) {
        late[step.stream] = step
        unscheduled.append((step.stream, step.delay))
    }

    /// Late steps that the loop has not scheduled yet.
    func takeUnscheduled() -> [(stream: Int32, delay: Duration)] {
        guard !unscheduled.isEmpty else { return [] }
        defer { unscheduled = [] }
        return unscheduled
    }

    func takeLate(_ stream: Int32) -> PendingStep? { late.removeValue(forKey: stream) }

    /// Pending answers of a connection that has ended.
    func takeLate() -> [PendingStep] {
        defer { late = [:] }
        return late.values.filter { $0.step.action == .answer }.sorted { $0.sequence < $1.sequence }
    }

    /// The events to watch the socket for, if they have changed.
    func takeChangedInterest() -> Poller.Interest? {
        guard wantedInterest != interest else { return nil }
        interest = wantedInterest
        return interest
    }
}

/// Clients that show a certificate instead of provider tokens (Apple: Establishing a certificate-based connection to APNs).
extension ServerConnection {
    /// - Returns: The streams to announce: a client with a good certificate need not prove anything more.
    func present(_ certificate: ProviderCertificate) -> UInt32 {
        check.present(certificate)
        _ = gate.answered(status: nil, isAuthenticated: check.authority.isAuthenticated)
        return gate.limit
    }

    /// Refuses the connection as Apple does: not with an answer, but with its end before it began (docs/apns.md, Connections).
    func refuseEnvironment() throws(HTTP2Error) {
        try http2?.goAway(lastStream: 0, code: .noError, debug: StatusAnswer(.badCertificateEnvironment).body ?? [])
    }
}

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

    /// Applies a request's fault.
    func apply(_ effect: ConnectionEffect, with pending: PendingStep) throws(HTTP2Error) {
        if case .goAway(let last, _, _, _) = effect, let stream = last.resolved(pending.stream), stream < pending.stream {
            activeFaults.goAwayFor = pending.stream
        }
        try apply(effect, causedBy: pending.stream)
    }

    /// Applies the effect of a request's fault or of a moment.
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
            return ScriptedAnswer(.goAway, answer: debug.isEmpty ? .accepted : StatusAnswer(status: 503))
        }
        return step
    }
}
