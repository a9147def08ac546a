/// The purpose of a token that a device has beside its own.
enum ActivityTokenUse: Equatable {
    /// Starts activities of one attributes type.
    case start(device: TokenKey, attributesType: String)
    /// Updates and ends one activity.
    case update(device: TokenKey, activityID: String)
    /// Replaced, or its app is gone: 410 since this moment, UNIX milliseconds.
    case retired(SimulatorEnvironment, since: Int64)

    var device: TokenKey? {
        switch self {
        case .start(let device, _), .update(let device, _): device
        case .retired: nil
        }
    }

    /// The same purpose on a device that has another token now.
    func moved(to device: TokenKey) -> ActivityTokenUse {
        switch self {
        case .start(_, let type): .start(device: device, attributesType: type)
        case .update(_, let id): .update(device: device, activityID: id)
        case .retired: self
        }
    }
}

/// A start token of a device. An app has one for each attributes type.
package struct StartToken: Sendable, Equatable {
    package let attributesType: String
    /// Lower-case hex.
    package let token: String
}

/// The address of a push, as its device sees it.
enum PushTarget: Equatable {
    /// The device's own token.
    case device
    case start(attributesType: String)
    case update(activityID: String)
    case channel(String)

    init?(_ token: ActivityTokenUse) {
        switch token {
        case .start(_, let type): self = .start(attributesType: type)
        case .update(_, let id): self = .update(activityID: id)
        case .retired: return nil
        }
    }

    var channelID: String? {
        if case .channel(let id) = self { id } else { nil }
    }
}

/// Pushes to start and update tokens.
extension World.State {
    /// The answer by the state of the device, or of the token itself; nil if no device has it.
    mutating func answer(
        at index: Dictionary<TokenKey, TokenRecord>.Index, _ facts: PushFacts, _ origin: RequestOrigin, now: Int64
    ) -> StatusAnswer? {
        guard let purpose = records.values[index].purpose else {
            return records.values[index].installation?.answer(to: origin.environment, topic: facts.topic, now: now)
        }
        guard let token = purpose.device, let device = records.index(forKey: token) else {
            guard case .retired(let environment, let since) = purpose else { return nil }
            return environment == origin.environment ? StatusAnswer(.unregistered, timestamp: since) : StatusAnswer(.badDeviceToken)
        }
        return records.values[device].installation?.answer(to: purpose, facts.topic, origin.environment, now: now)
    }

    /// An accepted push reaches its device.
    mutating func receive(
        at index: Dictionary<TokenKey, TokenRecord>.Index, _ token: TokenKey, _ facts: PushFacts, id: MessageID, now: Int64
    ) -> DeviceResult? {
        guard let purpose = records.values[index].purpose else {
            let result = records.values[index].installation?.receive(facts, for: .device, id: id, rules: rules, now: now)
            if let result { note(result, token, facts, id: id, now: now) }
            return result
        }
        guard let device = purpose.device, let target = PushTarget(purpose),
            let result = records[device]?.installation?.receive(facts, for: target, id: id, rules: rules, now: now)
        else { return nil }
        note(result, device, facts, id: id, now: now)
        return result
    }

    private mutating func note(_ result: DeviceResult, _ device: TokenKey, _ facts: PushFacts, id: MessageID, now: Int64) {
        arrivals.append(Arrival(result, token: device, facts, id: id, now: now))
        if result.activity != nil { followUp(device, now: now) }
    }
}

extension TokenRecord.Installation {
    /// The answer to a push to a start or update token of this device.
    fileprivate mutating func answer(
        to purpose: ActivityTokenUse, _ topic: [UInt8], _ environment: SimulatorEnvironment, now: Int64
    ) -> StatusAnswer {
        guard environment == self.environment else { return StatusAnswer(.badDeviceToken) }
        if case .uninstalled(let since) = state { return StatusAnswer(.unregistered, timestamp: since) }
        guard takesActivities(of: topic) else { return StatusAnswer(.deviceTokenNotForTopic) }
        if case .update(_, let id) = purpose, let own = activities[id]?.topic, !own.isEmpty, own != topic {
            return StatusAnswer(.deviceTokenNotForTopic)
        }
        return throttle?.admits(now) ?? true ? .accepted : StatusAnswer(.tooManyRequests)
    }
}

/// The tokens and channels of activities, as pushes and broadcasts look them up.
extension World.State {
    /// Replaced update tokens that are still answered 410, of one device.
    private static let maximumTokens = 1000

    /// Whether a device may have this token, and these beside it.
    func hasFree(_ token: TokenKey, startTokens: [TokenKey]) -> Bool {
        guard records[token]?.purpose?.device == nil, Set(startTokens + [token]).count == startTokens.count + 1 else { return false }
        return startTokens.allSatisfy { other in
            guard let record = records[other] else { return true }
            if case .update? = record.purpose { return false }
            return record.installation == nil && (record.purpose?.device ?? token) == token
        }
    }

    mutating func setPurpose(_ purpose: ActivityTokenUse?, of token: TokenKey) {
        records[token, default: TokenRecord()].purpose = purpose
        if records[token]?.isEmpty == true { records[token] = nil }
    }

    /// - Parameter before: The device's start tokens until now; those that it does not have any more are over.
    mutating func setStartTokens(of device: TokenKey, before: [(token: TokenKey, attributesType: String)], now: Int64) {
        guard let installation = records[device]?.installation else { return }
        let after = installation.startTokens
        for (token, _) in before where !after.contains(where: { $0.token == token }) {
            setPurpose(.retired(installation.environment, since: now), of: token)
        }
        for (token, type) in after { setPurpose(.start(device: device, attributesType: type), of: token) }
        note(after.map(\.token), of: device)
    }

    /// All tokens of a device beside its own are over: 410 from now on.
    mutating func retireTokens(of device: TokenRecord.Installation, since: Int64) {
        for token in device.activities.tokens where records[token]?.purpose?.device != nil {
            setPurpose(.retired(device.environment, since: since), of: token)
        }
    }

    /// Brings the tokens and the channels' subscribers in line with the device's activities, after any change of these.
    mutating func followUp(_ device: TokenKey, now: Int64) {
        guard let environment = records[device]?.installation?.environment,
            let (issued, givenUp) = records[device]?.installation?.activities.takeTokenChanges()
        else { return }
        for (token, id) in issued { setPurpose(.update(device: device, activityID: id), of: token) }
        for token in givenUp { setPurpose(.retired(environment, since: now), of: token) }
        note(issued.map(\.token), of: device)
        guard let installation = records[device]?.installation else { return }
        let (before, after) = (installation.following, installation.channels.union(installation.activities.channels(now: now)))
        guard before != after else { return }
        broadcast.unsubscribe(device, from: before.subtracting(after), in: environment)
        for channelID in after.subtracting(before) {
            guard let key = broadcast.app(with: channelID, in: environment) else { continue }
            broadcast.subscribe(device, to: channelID, key)
        }
        records[device]?.installation?.following = after
        records[device]?.installation?.awaited.formIntersection(after)
        if !after.isSubset(of: before) { deliverKept(to: device, now: now) }
    }

    private mutating func note(_ tokens: [TokenKey], of device: TokenKey) {
        let known = records[device]?.installation?.activities.tokens ?? []
        var all = known + tokens.filter { !known.contains($0) }
        while all.count > Self.maximumTokens, let oldest = all.firstIndex(where: { records[$0]?.purpose?.device == nil }) {
            setPurpose(nil, of: all.remove(at: oldest))
        }
        records[device]?.installation?.activities.tokens = all
    }
}
