import HTTP2
import Logging

extension ServerConnection {
    /// One request from its headers to its result.
    func take(_ stream: Int32, _ headers: HeaderList, _ body: [UInt8], now: Int64) throws(HTTP2Error) {
        if isManagement { return try takeChannelRequest(stream, headers, body, now: now) }
        var facts = PushFacts()
        let refusal = check.check(headers, body: body.count > ServerPushType.largestPayloadBytes ? nil : body, now: now, facts: &facts)
        // Never accepted by the checks of a push, so that pushes do not pay for it.
        if refusal != nil, BroadcastRequest.isBroadcast(headers) { return try takeChannelRequest(stream, headers, body, now: now) }
        let id = facts.id ?? MessageID.make(using: &random)
        let blow = isLeaving ? nil : scenario?.next(.push, facts, isFaulty: refusal != nil, environment: environment, now: now)
        let origin = RequestOrigin(
            environment: environment, connection: number, stream: stream, isSilent: isSilent, forced: forced(blow, on: stream),
            delay: blow?.delay ?? .zero)
        let (step, sequence) = service.world.settle(facts, id: id, refusal: refusal, from: origin, now: now)
        if service.logsPushes { log(facts, id, step, stream) }
        try carryOut(PendingStep(stream: stream, id: id, step: step, sequence: sequence), effect: blow?.effect)
    }

    /// The result of the request regardless of its checks and its device.
    func forced(_ blow: ConnectionScenario.Blow?, on stream: Int32) -> ScriptedAnswer? {
        isLeaving ? .reject(.shutdown) : blow?.forced(on: stream)
    }

    /// Performs the decision about a request now or later, and its connection's fault with it.
    func carryOut(_ next: PendingStep, effect: ConnectionEffect?) throws(HTTP2Error) {
        // A late GOAWAY, too, must be right about requests that come until then.
        if next.step.action == .goAway { http2?.leaveUnprocessed(above: lastStream(before: next)) }
        if let effect { try apply(effect, with: next) }
        let isLate = next.delay != .zero
        if isLate { postpone(next) } else { try perform(next) }
        if isLate || next.step.action != .answer { try announce(gate.answered(status: nil, isAuthenticated: isAuthenticated)) }
    }

    /// A step whose moment has come.
    func act(_ stream: Int32) {
        guard let step = takeLate(stream) else { return }
        defer { service.writeJournal() }
        do throws(HTTP2Error) {
            try perform(step)
        } catch {
            end()
        }
    }

    private func perform(_ pending: PendingStep) throws(HTTP2Error) {
        guard let http2, !activeFaults.isFrozen else { return noteLost(pending, .connectionFrozen) }
        switch pending.step.action {
        case .answer:
            if try write(pending, on: http2) { noteAnswered(pending) } else { noteLost(pending, .streamClosed) }
            try announce(gate.answered(status: pending.step.answer.status, isAuthenticated: isAuthenticated))
            // APNs disconnects clients that send many faulty requests eventually (Apple: Handling notification responses from APNs). The
            // page does not say when and how.
            if gate.rejections > 0, gate.rejections == service.configuration.rejectionLimit { try http2.goAway() }
        case .silence: break
        case .reset: http2.reset(pending.stream, HTTP2ErrorCode(rawValue: pending.step.resetCode))
        case .close: end()
        case .halfFrame: try writeHalf(of: pending, on: http2)
        case .goAway where activeFaults.goAwayFor == pending.stream: break
        case .goAway:
            // This push and later ones were not processed; earlier ones are answered.
            try http2.goAway(lastStream: lastStream(before: pending), code: .noError, debug: pending.step.answer.body ?? [])
        }
    }

    /// The answer itself, of a push or about channels.
    /// - Returns: false if its stream is gone.
    func write(_ pending: PendingStep, on http2: HTTP2ServerSession) throws(HTTP2Error) -> Bool {
        if let channels = pending.channels { return try channels.write(pending, on: http2) }
        return try answers.write(pending.step.answer, to: pending, unique: MessageID.make(using: &random), on: http2)
    }

    /// An immediate answer was counted with its request.
    private func noteAnswered(_ pending: PendingStep) {
        if pending.delay > .zero {
            service.world.noteAnswered(pending.sequence, Counters.Kind(pending.step.answer), now: service.configuration.clock())
        }
        output.unsent.append(pending.sequence, pending.step)
    }

    private func noteLost(_ pending: PendingStep, _ loss: AnswerLoss) {
        guard pending.step.action == .answer else { return }
        let counted = pending.delay > .zero ? nil : Counters.Kind(pending.step.answer)
        service.world.noteLost(pending.sequence, counted: counted, loss, now: service.configuration.clock())
    }

    private func lastStream(before pending: PendingStep) -> Int32 { max(0, pending.stream - 2) }

    private var isAuthenticated: Bool { check.authority.isAuthenticated }

    private func announce(_ streams: UInt32?) throws(HTTP2Error) {
        if let streams { try http2?.updateSettings(maxConcurrentStreams: Int(streams)) }
    }

    // MARK: Commands

    /// First only the notice, as RFC 9113 section 6.8 describes: requests on their way still get an answer.
    func leave() {
        isLeaving = true
        sayGoodBye()
    }

    func sayGoodBye() { goAway(lastStream: .max, code: 0, debug: []) }

    func goAway(lastStream: Int32?, code: UInt32, debug: [UInt8]) {
        do throws(HTTP2Error) {
            try http2?.goAway(lastStream: lastStream, code: HTTP2ErrorCode(rawValue: code), debug: debug)
        } catch {
            end()
        }
    }

    func setStreams(_ streams: UInt32) {
        do throws(HTTP2Error) {
            try announce(gate.setFull(streams))
        } catch {
            end()
        }
    }

    private func log(_ facts: PushFacts, _ id: MessageID, _ step: ScriptedAnswer, _ stream: Int32) {
        service.logger.debug(
            "Push",
            metadata: [
                SimulatorLogKey.environment: "\(environment.rawValue)", SimulatorLogKey.connection: "\(number)",
                SimulatorLogKey.stream: "\(stream)", SimulatorLogKey.tokenHint: "\(facts.token?.hint ?? "none")",
                SimulatorLogKey.apnsID: "\(String(decoding: id.text, as: UTF8.self))",
                SimulatorLogKey.topic: "\(String(decoding: facts.topic, as: UTF8.self))",
                SimulatorLogKey.pushType: "\(facts.type?.name ?? "none")", SimulatorLogKey.action: "\(step.action.rawValue)",
                SimulatorLogKey.status: "\(step.answer.status)", SimulatorLogKey.reason: "\(step.answer.reason ?? "none")",
            ])
    }
}

/// The next action on one stream, and the `apns-id` of its answer.
struct PendingStep {
    let stream: Int32
    let id: MessageID
    let step: ScriptedAnswer
    /// The number of the push in the journal.
    let sequence: Int64
    /// The answer's own parts if the request was about channels; nil for a push.
    var channels: BroadcastAnswerBody?

    var delay: Duration { step.delay }
}

/// Makes answers' headers in blocks that are prepared once per connection: an accepted push costs no allocation here.
struct AnswerWriter {
    private let hasUniqueID: Bool
    private var accepted = HeaderBlock()
    private var rejected = HeaderBlock()
    private var id = [UInt8](repeating: 0, count: 36)
    private var uniqueID = [UInt8](repeating: 0, count: 36)

    private static let status = 0
    private static let apnsID = 1
    private static let apnsUniqueID = 2

    /// - Parameter hasUniqueID: The sandbox's answers bear `apns-unique-id` (Apple: Handling notification responses from APNs).
    init(hasUniqueID: Bool) {
        self.hasUniqueID = hasUniqueID
        accepted.append(":status", "200")
        rejected.append(":status", "400")
        let blank = String(repeating: "0", count: 36)
        accepted.append("apns-id", blank, indexing: .withoutIndexing)
        rejected.append("apns-id", blank, indexing: .withoutIndexing)
        if hasUniqueID {
            accepted.append("apns-unique-id", blank, indexing: .withoutIndexing)
            rejected.append("apns-unique-id", blank, indexing: .withoutIndexing)
        }
        rejected.append("content-type", "application/json")
    }

    /// Hands the answer to the session.
    /// - Returns: false if the stream is gone.
    mutating func write(
        _ answer: StatusAnswer, to pending: PendingStep, unique: MessageID, on http2: HTTP2ServerSession
    ) throws(HTTP2Error) -> Bool {
        pending.id.write(into: &id)
        if hasUniqueID { unique.lowercased.write(into: &uniqueID) }
        if answer.status == 200, answer.reason == nil {
            accepted.setValue(id, at: Self.apnsID)
            if hasUniqueID { accepted.setValue(uniqueID, at: Self.apnsUniqueID) }
            return try http2.respond(pending.stream, headers: accepted)
        } else {
            rejected.setValue(String(answer.status), at: Self.status)
            rejected.setValue(id, at: Self.apnsID)
            if hasUniqueID { rejected.setValue(uniqueID, at: Self.apnsUniqueID) }
            return try http2.respond(pending.stream, headers: rejected, body: answer.body ?? [], frameLimit: answer.frameBytes ?? .max)
        }
    }
}
