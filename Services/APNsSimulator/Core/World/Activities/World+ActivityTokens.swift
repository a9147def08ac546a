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

    mutating func setPurpose(_ purpose: ActivityToken?, of token: TokenKey) {
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
