import HTTP2
import StrictJSON

/// Channel management and broadcasts: rare, so written without optimisation.
extension ServerConnection {
    func takeChannelRequest(_ stream: Int32, _ headers: HeaderList, _ body: [UInt8], now: Int64) throws(HTTP2Error) {
        let kind = isManagement ? RequestKind.channels : .broadcast
        var facts = PushFacts()
        let wanted = read(headers, body.count > ChannelBody.maximumBytes ? nil : body, &facts, now: now)
        let blow = isLeaving ? nil : scenario?.next(kind, facts, isFaulty: wanted.fault != nil, environment: environment, now: now)
        let forced = isSilent ? .silence : forced(blow, on: stream) ?? service.world.overload(now: now)
        var (step, reply) = settle(wanted, forced, now: now)
        let id = facts.id ?? MessageID.make(using: &random)
        if let blow { step.delay += blow.delay }
        let origin = RequestOrigin(environment: environment, connection: number, stream: stream)
        let sequence = service.world.noteChannelRequest(facts, id: id, step, from: origin, now: now)
        let next = PendingStep(stream: stream, id: id, step: step, sequence: sequence, channels: reply)
        try carryOut(next, effect: blow?.effect)
    }

    /// A request as far as it could be read: its action, or its fault.
    private enum Wanted {
        case task(ChannelTask, BroadcastApps.Key)
        case fault(BroadcastAnswer)

        var fault: BroadcastAnswer? {
            if case .fault(let answer) = self { answer } else { nil }
        }
    }

    private func read(_ headers: HeaderList, _ body: [UInt8]?, _ facts: inout PushFacts, now: Int64) -> Wanted {
        do throws(BroadcastAnswer) {
            facts.id = try BroadcastRequest.id(headers)
            let request = try BroadcastRequest(headers, isManagement: isManagement)
            facts.topic = Array(request.bundleID.utf8)
            if request.operation == .broadcast { facts.type = .liveactivity }
            let key = BroadcastApps.Key(environment: environment, bundleID: request.bundleID)
            return .task(try task(request, body, key, now: now), key)
        } catch {
            return .fault(error)
        }
    }

    /// Performs the action, unless another answer is forced; a forced success performs it, too.
    private func settle(_ wanted: Wanted, _ forced: ScriptedAnswer?, now: Int64) -> (ScriptedAnswer, BroadcastAnswerBody) {
        if let forced, forced.action != .answer || !forced.answer.isAccepted { return (forced, BroadcastAnswerBody()) }
        let own: BroadcastAnswer
        switch wanted {
        case .fault(let answer): own = answer
        case .task(let task, let key):
            do throws(BroadcastAnswer) { own = try service.world.perform(task, key, using: &random, now: now) } catch { own = error }
        }
        if let forced { return (forced, BroadcastAnswerBody(channelID: own.channelID)) }
        return (.answer(status: own.status, reason: own.reason), BroadcastAnswerBody(channelID: own.channelID, body: own.body))
    }

    // MARK: Checks

    private func task(
        _ request: BroadcastRequest, _ body: [UInt8]?, _ key: BroadcastApps.Key, now: Int64
    ) throws(BroadcastAnswer) -> ChannelTask {
        let bundleID = Array(request.bundleID.utf8)
        // The path bears the bare bundle id.
        guard ServerPushType.bundleID(of: bundleID).count == bundleID.count else { throw BroadcastAnswer(.topicDisallowed) }
        if let refusal = check.authorize(request.headers.value(of: "authorization").map { Array($0) }, bundleID: bundleID, now: now) {
            throw refusal
        }
        guard service.world.isBroadcastEnabled(key) else { throw BroadcastAnswer(.featureNotEnabled) }
        switch request.operation {
        case .create: return .create(isStoring: try ChannelBody.isStoring(body))
        case .read: return .read(channelID: try existing(request, key).id)
        case .delete: return .delete(channelID: try existing(request, key).id)
        case .list: return .list
        case .broadcast: return try broadcast(request, body, key)
        }
    }

    private func existing(_ request: BroadcastRequest, _ key: BroadcastApps.Key) throws(BroadcastAnswer) -> (id: String, isStoring: Bool) {
        let channelID = try request.channelID()
        return (channelID, try service.world.isStoring(channelID, key))
    }

    private func broadcast(_ request: BroadcastRequest, _ body: [UInt8]?, _ key: BroadcastApps.Key) throws(BroadcastAnswer) -> ChannelTask {
        let channel = try existing(request, key)
        guard let type = request.headers["apns-push-type"] else { throw BroadcastAnswer(.missingPushType) }
        // Apple's own pages write it in three ways (docs/apns.md, Broadcasts).
        guard type.lowercased() == "liveactivity" else { throw BroadcastAnswer(.invalidPushType) }
        guard let priority = Int(request.headers["apns-priority"] ?? "10"), [1, 5, 10].contains(priority) else {
            throw BroadcastAnswer(.badPriority)
        }
        var expiration: Int64?
        if let text = request.headers["apns-expiration"] {
            guard let seconds = Int64(text), (0...253_402_300_800).contains(seconds), channel.isStoring || seconds == 0 else {
                throw BroadcastAnswer(.badExpirationDate)
            }
            expiration = seconds
        }
        return .broadcast(try ChannelBody.content(body), channelID: channel.id, priority: priority, expiration: expiration)
    }
}

/// The action of a correct request about channels.
enum ChannelTask {
    case create(isStoring: Bool)
    case read(channelID: String)
    case delete(channelID: String)
    case list
    case broadcast(PayloadReader.Reading, channelID: String, priority: Int, expiration: Int64?)
}

/// The parts of an answer about channels beside status and reason. A class, so that the steps of pushes, which have none, stay small.
final class BroadcastAnswerBody {
    /// The id of a channel just made.
    private let channelID: String?
    /// nil: the body that the answer makes from its reason.
    private let body: [UInt8]?

    init(channelID: String? = nil, body: [UInt8]? = nil) {
        self.channelID = channelID
        self.body = body
    }

    /// Hands the answer to the session.
    /// - Returns: false if the stream is gone.
    func write(_ pending: PendingStep, on http2: HTTP2ServerSession) throws(HTTP2Error) -> Bool {
        let answer = pending.step.answer
        let content = body ?? answer.body ?? []
        var block = HeaderBlock()
        block.append(":status", String(answer.status))
        block.append("apns-request-id", pending.id.text)
        if let channelID { block.append("apns-channel-id", channelID) }
        if !content.isEmpty { block.append("content-type", "application/json") }
        return try http2.respond(pending.stream, headers: block, body: content, frameLimit: answer.frameBytes ?? .max)
    }
}
