import HTTP2
import StrictJSON

/// Channel management and broadcasts (APNS.md section 6): seldom, so plainly written.
extension ServerConnection {
    func takeChannelRequest(_ stream: Int32, _ headers: HeaderList, _ body: [UInt8], now: Int64) throws(HTTP2Error) {
        guard !isSilent, !suffering.isFrozen else { return }
        var (id, facts) = (MessageID?.none, PushFacts())
        let answer: ChannelAnswer
        do throws(ChannelAnswer) {
            id = try ChannelRequest.id(headers)
            let request = try ChannelRequest(headers, isManagement: isManagement)
            facts.topic = Array(request.bundleID.utf8)
            if request.operation == .broadcast { facts.type = .liveactivity }
            answer = try self.answer(request, body.count > ChannelBody.maximumBytes ? nil : body, now: now)
        } catch {
            answer = error
        }
        let answerID = id ?? MessageID.make(using: &random)
        facts.id = id
        service.world.noteChannelRequest(
            facts, id: answerID, answer, from: RequestOrigin(environment: environment, connection: number, stream: stream), now: now)
        var block = HeaderBlock()
        block.append(":status", String(answer.status))
        block.append("apns-request-id", answerID.text(upperCase: id == nil))
        if let channelID = answer.channelID { block.append("apns-channel-id", channelID) }
        if !answer.body.isEmpty { block.append("content-type", "application/json") }
        try http2?.respond(stream, headers: block, body: answer.body)
        let status = (200..<300).contains(answer.status) ? 200 : answer.status
        if let limit = gate.answered(status: status, isAuthenticated: check.authority.isAuthenticated) {
            try http2?.updateSettings(maxConcurrentStreams: Int(limit))
        }
    }

    private func answer(_ request: ChannelRequest, _ body: [UInt8]?, now: Int64) throws(ChannelAnswer) -> ChannelAnswer {
        let bundleID = Array(request.bundleID.utf8)
        // The path bears the bare bundle id.
        guard PushType.bundleID(of: bundleID).count == bundleID.count else { throw ChannelAnswer(.topicDisallowed) }
        if let refusal = check.authorize(request.headers.value(of: "authorization").map { Array($0) }, bundleID: bundleID, now: now) {
            throw refusal
        }
        let key = BroadcastApps.Key(environment: environment, bundleID: request.bundleID)
        guard service.world.isBroadcastEnabled(key) else { throw ChannelAnswer(.featureNotEnabled) }
        switch request.operation {
        case .create: return try service.world.createChannel(isStoring: ChannelBody.isStoring(body), key)
        case .read: return try service.world.readChannel(request.channelID(), key)
        case .delete: return try service.world.deleteChannel(request.channelID(), key)
        case .list: return service.world.listChannels(key)
        case .broadcast: return try broadcast(request, body, key, now: now)
        }
    }

    private func broadcast(
        _ request: ChannelRequest, _ body: [UInt8]?, _ key: BroadcastApps.Key, now: Int64
    ) throws(ChannelAnswer) -> ChannelAnswer {
        let channelID = try request.channelID()
        let isStoring = try service.world.isStoring(channelID, key)
        guard let type = request.headers["apns-push-type"] else { throw ChannelAnswer(.missingPushType) }
        // Apple's own pages write it in three ways (APNS.md section 10).
        guard type.lowercased() == "liveactivity" else { throw ChannelAnswer(.invalidPushType) }
        if let priority = request.headers["apns-priority"], !["1", "5", "10"].contains(priority) { throw ChannelAnswer(.badPriority) }
        var expiration: Int64?
        if let text = request.headers["apns-expiration"] {
            guard let seconds = Int64(text), (0...253_402_300_800).contains(seconds), isStoring || seconds == 0 else {
                throw ChannelAnswer(.badExpirationDate)
            }
            expiration = seconds
        }
        let content = try ChannelBody.content(body)
        service.world.broadcast(content, to: channelID, key, expiration: expiration, id: MessageID.make(using: &random), now: now)
        return ChannelAnswer(200)
    }
}
