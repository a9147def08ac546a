import StrictJSON
import Synchronization

extension World {
    func isBroadcastEnabled(_ key: BroadcastApps.Key) -> Bool {
        state.withLock { $0.broadcast.app(key).isEnabled }
    }

    /// - Throws: ``ChannelAnswer``: another connection was faster, or there is no room for another channel.
    func perform(
        _ task: ChannelTask, _ key: BroadcastApps.Key, using random: inout FastRandom, now: Int64
    ) throws(ChannelAnswer) -> ChannelAnswer {
        switch task {
        case .create(let isStoring): return try createChannel(isStoring: isStoring, key)
        case .read(let channelID): return try readChannel(channelID, key)
        case .delete(let channelID): return try deleteChannel(channelID, key)
        case .list: return listChannels(key)
        case .broadcast(let content, let channelID, let expiration):
            broadcast(content, to: channelID, key, expiration: expiration, id: MessageID.make(using: &random), now: now)
            return ChannelAnswer(200)
        }
    }

    private func createChannel(isStoring: Bool, _ key: BroadcastApps.Key) throws(ChannelAnswer) -> ChannelAnswer {
        guard let id = state.withLock({ $0.broadcast.create(isStoring: isStoring, limit: BroadcastApps.maximumChannels, key) }) else {
            throw ChannelAnswer(.cannotCreateChannelConfig)
        }
        return ChannelAnswer(201, channelID: id)
    }

    /// - Returns: Whether the channel keeps its most recent message.
    func isStoring(_ channelID: String, _ key: BroadcastApps.Key) throws(ChannelAnswer) -> Bool {
        guard let channel = state.withLock({ $0.broadcast.app(key).channels[channelID] }) else {
            throw ChannelAnswer(.channelNotRegistered)
        }
        return channel.isStoring
    }

    private func readChannel(_ channelID: String, _ key: BroadcastApps.Key) throws(ChannelAnswer) -> ChannelAnswer {
        let isStoring = try isStoring(channelID, key)
        var writer = JSONWriter()
        writer.object { object in
            object.field("message-storage-policy", isStoring ? 1 : 0)
            object.field("push-type", "LiveActivity")
        }
        return ChannelAnswer(200, body: writer.bytes)
    }

    private func deleteChannel(_ channelID: String, _ key: BroadcastApps.Key) throws(ChannelAnswer) -> ChannelAnswer {
        guard state.withLock({ $0.broadcast.delete(channelID, key) }) else { throw ChannelAnswer(.channelNotRegistered) }
        return ChannelAnswer(204)
    }

    private func listChannels(_ key: BroadcastApps.Key) -> ChannelAnswer {
        let channels = state.withLock { $0.broadcast.app(key).channels.keys.sorted() }
        var writer = JSONWriter()
        writer.object { $0.field("channels", channels) }
        return ChannelAnswer(200, body: writer.bytes)
    }

    /// Shows the state on every device that listens and is online; a channel that stores keeps it for the others.
    /// - Parameter expiration: UNIX seconds, if the sender shortens the storage.
    private func broadcast(
        _ content: PayloadReader.Reading, to channelID: String, _ key: BroadcastApps.Key, expiration: Int64?, id: MessageID, now: Int64
    ) {
        let latest = now + BroadcastApps.longestStorage
        let expiresAt = expiration.map { min($0 * 1000, latest) } ?? latest
        let topic = Array(key.bundleID.utf8) + Array(PushType.liveactivity.topicSuffix.utf8)
        change { state in
            guard let channel = state.broadcast.app(key).channels[channelID] else { return }
            let entry = Inbox.Entry(
                receivedAt: now, id: id, topic: topic, type: .liveactivity, collapseID: nil, content: content,
                expiresAt: channel.isStoring ? expiresAt : nil, channelID: channelID)
            let keeps = channel.isStoring && expiresAt > now
            for token in state.broadcast.publish(channelID, stored: keeps ? entry : nil, key) {
                guard let index = state.records.index(forKey: token),
                    let reception = state.records.values[index].receive(entry, keeps: keeps, now: now)
                else { continue }
                if reception == .shown { state.counters.shown += 1 }
                state.arrivals.append(Arrival(reception, token: token, topic: topic, type: .liveactivity, content: content, now: now))
            }
        }
    }

    /// Requests about channels are in the journal among the others.
    /// - Returns: Its number there.
    func noteChannelRequest(_ facts: PushFacts, id: MessageID, _ step: ScriptedAnswer, from origin: RequestOrigin, now: Int64) -> Int64 {
        change { state in
            state.counters.note(step, isShown: false)
            return state.journal.append(JournalRecord(facts, id: id, step, isShown: false, origin, now))
        }
    }

    // MARK: What the control API asks

    /// A device's activities listen to these channels and no others.
    /// - Returns: The first channel that its environment does not have; nil if it has all.
    func subscribe(_ token: TokenKey, to channels: [String], now: Int64) -> String? {
        change { state in
            guard let device = state.records[token]?.installation else { return nil }
            for channelID in channels where state.broadcast.app(with: channelID, in: device.environment) == nil { return channelID }
            state.broadcast.unsubscribe(token, from: device.channels, in: device.environment)
            for channelID in channels {
                guard let key = state.broadcast.app(with: channelID, in: device.environment) else { continue }
                state.broadcast.subscribe(token, to: channelID, key)
            }
            state.records[token]?.installation?.channels = Set(channels)
            state.deliverStored(to: token, now: now)
            state.noteDevice(token, now: now)
            return nil
        }
    }

    func setBroadcast(_ isEnabled: Bool, _ key: BroadcastApps.Key) {
        change { $0.broadcast.setEnabled(isEnabled, key) }
    }
}
