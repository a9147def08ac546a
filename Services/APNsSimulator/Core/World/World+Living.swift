/// What devices do by themselves: they are switched off and on, apps go and come back, tokens change.
extension World {
    /// What a person or a system does to a device.
    enum Deed: Sendable {
        case goOffline, comeOnline
        /// The person opens the app: nothing is left on the lock screen.
        case open
        /// - since: The timestamp of the 410s. pushesUntilGone: So many are accepted before.
        case uninstall(since: Int64, pushesUntilGone: Int)
        /// APNs gives the token up.
        case expire(since: Int64)
        /// The app is deleted and installed again: another token, an empty lock screen.
        case reinstall(as: TokenKey)
        /// The system hands out another token; the app and its notifications stay.
        case rotate(to: TokenKey)
    }

    enum DeedResult: Sendable {
        case done
        /// Nobody has installed that token.
        case unknown
        /// The new token is somebody's already.
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
            case .uninstall(let since, let pushes):
                state.end(token, as: .uninstalled(since: since))
                state.records[token]?.installation?.pushesUntilGone = pushes
            case .expire(let since): state.end(token, as: .expired(since: since))
            case .reinstall(let other), .rotate(let other):
                guard state.records[other]?.installation == nil, other != token else { return .taken }
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
        arrivals.append(Arrival(.device, token: token, now: now))
    }

    /// What waited for the device, and the newest that its channels keep.
    mutating func deliverStored(to token: TokenKey, now: Int64) {
        guard var device = records[token]?.installation, case .installed = device.state, device.isOnline else { return }
        for (push, reception) in device.takeStored(now: now) {
            let entry = push.entry
            arrivals.append(
                Arrival(
                    reception, token: token, topic: entry.topic, type: entry.type, id: entry.id, entry.idWasGenerated,
                    content: entry.content,
                    now: now))
        }
        for entry in broadcast.stored(for: device.channels, in: device.environment, now: now) {
            // What it has seen already is not shown again.
            guard device.inbox.timestamp(replacedBy: entry) != entry.content.content?.activity?.timestamp,
                device.show(entry, now: now) == .shown
            else { continue }
            arrivals.append(Arrival(.shown, token: token, topic: entry.topic, type: entry.type, content: entry.content, now: now))
        }
        records[token]?.installation = device
    }

    fileprivate mutating func end(_ token: TokenKey, as ending: Device.State) {
        guard let device = records[token]?.installation else { return }
        broadcast.unsubscribe(token, from: device.channels, in: device.environment)
        records[token]?.installation?.state = ending
        records[token]?.installation?.clear()
        records[token]?.installation?.channels = []
    }

    /// The same app on the same device under another token; the old one is over.
    fileprivate mutating func succeed(
        _ token: TokenKey, by other: TokenKey, _ device: TokenRecord.Installation, keepsScreen: Bool, now: Int64
    ) {
        end(token, as: .uninstalled(since: now))
        var successor = device
        successor.state = .installed
        successor.pushesUntilGone = 0
        successor.channels = []
        // What waited was for the old token.
        successor.stored = []
        if !keepsScreen {
            successor.clear()
            successor.accepted = 0
        }
        records[other, default: TokenRecord()].installation = successor
        noteDevice(other, now: now)
    }
}
