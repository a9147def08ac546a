import StrictJSON
import Synchronization

extension World {
    func isBroadcastEnabled(_ key: BroadcastApps.Key) -> Bool {
        state.withLock { $0.broadcast.app(key).isEnabled }
    }

    /// - Throws: ``BroadcastAnswer``: another connection was faster, or there is no room for another channel.
    func perform(
        _ task: ChannelTask, _ key: BroadcastApps.Key, using random: inout FastRandom, now: Int64
    ) throws(BroadcastAnswer) -> BroadcastAnswer {
        switch task {
        case .create(let isStoring): return try createChannel(isStoring: isStoring, key)
        case .read(let channelID): return try readChannel(channelID, key)
        case .delete(let channelID): return try deleteChannel(channelID, key)
        case .list: return listChannels(key)
        case .broadcast(let content, let channelID, let priority, let expiration):
            let latest = now + BroadcastApps.longestStorage
            let entry = Inbox.Entry(
                receivedAt: now, id: MessageID.make(using: &random),
                topic: Array(key.bundleID.utf8) + Array(ServerPushType.liveactivity.topicSuffix.utf8), type: .liveactivity, collapseID: nil,
                content: content, target: .channel(channelID), priority: priority,
                expiresAt: expiration.map { min($0 * 1000, latest) } ?? latest)
            guard broadcast(entry, to: channelID, key, now: now) else { throw BroadcastAnswer(.tooManyRequests) }
            return BroadcastAnswer(200)
        }
    }

    private func createChannel(isStoring: Bool, _ key: BroadcastApps.Key) throws(BroadcastAnswer) -> BroadcastAnswer {
        guard let id = state.withLock({ $0.broadcast.create(isStoring: isStoring, limit: BroadcastApps.maximumChannels, key) }) else {
            throw BroadcastAnswer(.cannotCreateChannelConfig)
        }
        return BroadcastAnswer(201, channelID: id)
    }

    /// - Returns: Whether the channel keeps its most recent message.
    func isStoring(_ channelID: String, _ key: BroadcastApps.Key) throws(BroadcastAnswer) -> Bool {
        guard let channel = state.withLock({ $0.broadcast.app(key).channels[channelID] }) else {
            throw BroadcastAnswer(.channelNotRegistered)
        }
        return channel.isStoring
    }

    private func readChannel(_ channelID: String, _ key: BroadcastApps.Key) throws(BroadcastAnswer) -> BroadcastAnswer {
        let isStoring = try isStoring(channelID, key)
        var writer = JSONWriter()
        writer.object { object in
            object.field("message-storage-policy", isStoring ? 1 : 0)
            object.field("push-type", "LiveActivity")
        }
        return BroadcastAnswer(200, body: writer.bytes)
    }

    private func deleteChannel(_ channelID: String, _ key: BroadcastApps.Key) throws(BroadcastAnswer) -> BroadcastAnswer {
        guard state.withLock({ $0.broadcast.delete(channelID, key) }) else { throw BroadcastAnswer(.channelNotRegistered) }
        return BroadcastAnswer(204)
    }

    private func listChannels(_ key: BroadcastApps.Key) -> BroadcastAnswer {
        let channels = state.withLock { $0.broadcast.app(key).channels.keys.sorted() }
        var writer = JSONWriter()
        writer.object { $0.field("channels", channels) }
        return BroadcastAnswer(200, body: writer.bytes)
    }

    /// Shows the state on every device that listens and is online; a channel that stores keeps it for the others.
    /// - Returns: false if it is one too many in this second.
    private func broadcast(_ broadcast: Inbox.Entry, to channelID: String, _ key: BroadcastApps.Key, now: Int64) -> Bool {
        change { state in
            guard let channel = state.broadcast.app(key).channels[channelID] else { return true }
            if let limit = state.rules.broadcastsPerSecond, !state.broadcast.admits(channelID, perSecond: limit, key, now: now) {
                return false
            }
            var entry = broadcast
            if !channel.isStoring { entry.expiresAt = nil }
            let keeps = entry.expiresAt.map { $0 > now } ?? false
            var shown: Int64 = 0
            for token in state.broadcast.publish(channelID, stored: keeps ? entry : nil, key) {
                guard let index = state.records.index(forKey: token),
                    state.records.values[index].installation?.listens(to: channelID, now: now) == true
                else {
                    state.followUp(token, now: now)
                    continue
                }
                let results = state.records.values[index].receive(entry, keeps: keeps, rules: state.rules, now: now)
                for result in results {
                    if result.reception == .shown { shown += 1 }
                    state.arrivals.append(Arrival(result, token: token, entry, now: now))
                }
                // An activity that is over follows no channel.
                if results.contains(where: { $0.activity == .ended }) { state.followUp(token, now: now) }
            }
            state.counters.shown += shown
            state.broadcast.noteReceptions(shown, of: channelID, in: key.environment)
            return true
        }
    }

    /// Requests about channels are in the journal among the others.
    /// - Returns: The request's number there.
    func noteChannelRequest(_ facts: PushFacts, id: MessageID, _ step: ScriptedAnswer, from origin: RequestOrigin, now: Int64) -> Int64 {
        change { state in
            state.counters.note(step, isShown: false)
            return state.journal.append(JournalRecord(facts, id: id, step, nil, origin, now))
        }
    }

    // MARK: What the control API asks

    /// A device's activities listen to these channels and no others.
    /// - Returns: The first channel that its environment does not have; nil if it has all.
    func subscribe(_ token: TokenKey, to channels: [String], now: Int64) -> String? {
        change { state in
            guard let device = state.records[token]?.installation else { return nil }
            for channelID in channels where state.broadcast.app(with: channelID, in: device.environment) == nil { return channelID }
            state.records[token]?.installation?.channels = Set(channels)
            state.followUp(token, now: now)
            state.noteDevice(token, now: now)
            return nil
        }
    }

    /// Followers without devices: a broadcast to any number of them costs one addition.
    /// - Returns: false if there is no such channel.
    func addAnonymousFollowers(_ count: Int64, to channelID: String) -> Bool {
        change { state in
            for environment in SimulatorEnvironment.allCases {
                guard let key = state.broadcast.app(with: channelID, in: environment) else { continue }
                state.broadcast.addAnonymous(count, to: channelID, key)
                return true
            }
            return false
        }
    }

    func setBroadcast(_ isEnabled: Bool, _ key: BroadcastApps.Key) {
        change { $0.broadcast.setEnabled(isEnabled, key) }
    }
}

/// Every reason of the channel and broadcast APIs (Apple: Handling error responses from APNs) that `/3/device` does not have. The raw value
/// is the text on the wire.
enum ChannelRejection: String, CaseIterable, Error {
    case featureNotEnabled = "FeatureNotEnabled"
    case missingChannelID = "MissingChannelId"
    case badChannelID = "BadChannelId"
    case channelNotRegistered = "ChannelNotRegistered"
    case badRequestParams = "BadRequestParams"
    case badRequestPayload = "BadRequestPayload"
    case missingPushType = "MissingPushType"
    case cannotCreateChannelConfig = "CannotCreateChannelConfig"
    /// The reason is not on Apple's page; it was seen where the storage policy is missing or unknown (docs/apns.md, Broadcasts).
    case missingChannelQueueSize = "MissingChannelQueueSize"
    case topicMismatch = "TopicMismatch"

    var status: Int { self == .topicMismatch ? 403 : 400 }
}

/// The answer to a request about channels.
struct BroadcastAnswer: Error {
    var status: Int
    var reason: String?
    /// The id of a channel just made.
    var channelID: String?
    var body: [UInt8] = []

    init(_ status: Int, channelID: String? = nil, body: [UInt8] = []) {
        self.status = status
        self.channelID = channelID
        self.body = body
    }

    init(_ rejection: ChannelRejection) { self.init(StatusAnswer(status: rejection.status, reason: rejection.rawValue)) }
    init(_ reason: RejectionReason) { self.init(StatusAnswer(reason)) }

    private init(_ answer: StatusAnswer) {
        status = answer.status
        reason = answer.reason
        body = answer.body ?? []
    }
}

/// Bodies of requests about channels.
enum ChannelBody {
    /// Bytes of a broadcast's body (Apple: Sending broadcast push notification requests to APNs).
    static let maximumBytes = 5120

    static func parse(_ body: [UInt8]?) throws(BroadcastAnswer) -> JSONValue {
        guard let body, body.count <= maximumBytes else { throw BroadcastAnswer(.payloadTooLarge) }
        guard !body.isEmpty else { throw BroadcastAnswer(.payloadEmpty) }
        let value: JSONValue
        do throws(JSONError) {
            value = try JSONValue.parse(body)
        } catch {
            throw BroadcastAnswer(.badRequestPayload)
        }
        guard value.objectValue != nil else { throw BroadcastAnswer(.badRequestPayload) }
        return value
    }

    /// `{"message-storage-policy":0|1,"push-type":"LiveActivity"}`
    /// - Returns: Whether the most recent message is stored.
    static func isStoring(_ body: [UInt8]?) throws(BroadcastAnswer) -> Bool {
        let value = try parse(body)
        for field in value.objectValue ?? [] where field.key != "message-storage-policy" && field.key != "push-type" {
            throw BroadcastAnswer(.badRequestParams)
        }
        guard let type = value["push-type"] else { throw BroadcastAnswer(.missingPushType) }
        guard type.stringValue == "LiveActivity" else { throw BroadcastAnswer(.invalidPushType) }
        switch value["message-storage-policy"]?.integerValue {
        case 0: return false
        case 1: return true
        default: throw BroadcastAnswer(.missingChannelQueueSize)
        }
    }

    /// The payload of a Live Activity's update or end: a broadcast starts nothing.
    static func content(_ body: [UInt8]?) throws(BroadcastAnswer) -> PayloadReader.Reading {
        _ = try parse(body)
        guard let content = DeviceContent(payload: body ?? []), let activity = content.activity, activity.event != .start else {
            throw BroadcastAnswer(.badRequestPayload)
        }
        return PayloadReader.Reading(content)
    }
}
