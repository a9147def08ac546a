/// The devices' own actions: they are switched off and on, apps go and come back, tokens change.
extension World {
    /// A user's or the system's action on a device.
    enum Deed: Sendable {
        case goOffline, comeOnline
        /// The user opens the app: the lock screen is empty.
        case open
        /// - since: The timestamp of the 410s. pushesUntilGone: How many are accepted before.
        case uninstall(since: Int64, pushesUntilGone: Int)
        /// APNs gives the token up.
        case expire(since: Int64)
        /// The app is deleted and installed again: another token, an empty lock screen.
        case reinstall(as: TokenKey)
        /// The system issues another token; the app and its notifications stay.
        case rotate(to: TokenKey)
    }

    enum DeedResult: Sendable {
        case done
        /// No device has that token.
        case unknown
        /// The new token belongs to another device.
        case taken
    }

    func perform(_ deed: Deed, on token: TokenKey, now: Int64) -> DeedResult {
        change { state in
            guard let device = state.records[token]?.installation else { return .unknown }
            switch deed {
            case .goOffline: state.records[token]?.installation?.isOnline = false
            case .comeOnline:
                state.records[token]?.installation?.isOnline = true
                state.deliverStored(to: token, now: now)
            case .open:
                state.records[token]?.installation?.inbox = Inbox()
                state.records[token]?.installation?.badge = nil
            case .uninstall(let since, let pushes): state.removeApp(from: token, since: since, pushesUntilGone: pushes)
            // The token is over, not the app: the notifications on the screen stay.
            case .expire(let since): state.records[token]?.installation?.state = .expired(since: since)
            case .reinstall(let other), .rotate(let other):
                guard state.records[other]?.installation == nil, state.records[other]?.purpose?.device == nil else { return .taken }
                state.succeed(token, by: other, device, keepsScreen: deed.keepsScreen, now: now)
            }
            state.noteDevice(token, now: now)
            return .done
        }
    }
}

extension World.Deed {
    fileprivate var keepsScreen: Bool {
        if case .rotate = self { true } else { false }
    }
}

extension World.State {
    mutating func noteDevice(_ token: TokenKey, now: Int64) {
        arrivals.append(Arrival(DeviceResult(.device), token: token, now: now))
    }

    /// Delivers the pushes that waited for the device, and the newest that its channels keep.
    mutating func deliverStored(to token: TokenKey, now: Int64) {
        guard var device = records[token]?.installation, device.state.hasApp, device.isOnline else { return }
        for (push, result) in device.takeStored(rules: rules, now: now) { note(result, token, push.entry, now: now) }
        records[token]?.installation = device
        deliverKept(to: token, now: now)
        // A start that waited has begun an activity.
        followUp(token, now: now)
    }

    /// Delivers the newest broadcast that each channel keeps. A state that an activity has seen already is not shown again.
    mutating func deliverKept(to token: TokenKey, now: Int64) {
        guard var device = records[token]?.installation, device.state.hasApp, device.isOnline else { return }
        for entry in broadcast.stored(for: device.following, in: device.environment, now: now) {
            guard let channelID = entry.target.channelID else { continue }
            let results = device.playBroadcast(entry, onlyUnseen: true, rules: rules, now: now).filter { $0.reception == .shown }
            for result in results { note(result, token, entry, now: now) }
            broadcast.noteReceptions(Int64(results.count), of: channelID, in: device.environment)
            if !results.isEmpty, device.awaited.contains(channelID) { device.missed -= 1 }
        }
        device.awaited = []
        records[token]?.installation = device
    }

    private mutating func note(_ result: DeviceResult, _ token: TokenKey, _ entry: Inbox.Entry, now: Int64) {
        if result.reception == .shown { counters.shown += 1 }
        arrivals.append(Arrival(result, token: token, entry, now: now))
    }

    mutating func removeApp(from token: TokenKey, since: Int64, pushesUntilGone: Int) {
        guard let device = records[token]?.installation else { return }
        broadcast.unsubscribe(token, from: device.following, in: device.environment)
        retireTokens(of: device, since: since)
        records[token]?.installation?.state = .uninstalled(since: since)
        records[token]?.installation?.pushesUntilGone = pushesUntilGone
        records[token]?.installation?.clear()
    }

    /// Goes on as the same app on the same device under another token; the old one is over, since now or since the app was removed.
    fileprivate mutating func succeed(
        _ token: TokenKey, by other: TokenKey, _ device: TokenRecord.Installation, keepsScreen: Bool, now: Int64
    ) {
        if keepsScreen {
            for own in device.activities.tokens { setPurpose(records[own]?.purpose?.moved(to: other), of: own) }
            records[token]?.installation?.activities.tokens = []
        }
        if case .uninstalled(let since) = device.state {
            removeApp(from: token, since: since, pushesUntilGone: 0)
        } else {
            removeApp(from: token, since: now, pushesUntilGone: 0)
        }
        var successor = device
        successor.state = .installed
        successor.pushesUntilGone = 0
        // The waiting pushes to the old token are lost.
        successor.stored.removeAll { $0.entry.target == .device }
        if keepsScreen {
            for channelID in device.following {
                guard let key = broadcast.app(with: channelID, in: device.environment) else { continue }
                broadcast.subscribe(other, to: channelID, key)
            }
        } else {
            successor.clear()
            successor.activities.tokens = []
            successor.accepted = 0
        }
        records[other, default: TokenRecord()].purpose = nil
        records[other]?.installation = successor
        noteDevice(other, now: now)
    }
}
