/// A push that waits for its device (docs/apns.md, Devices).
struct StoredPush {
    let entry: Inbox.Entry
    let isSilent: Bool
    /// UNIX milliseconds.
    let expiresAt: Int64

    fileprivate func takesPlace(of earlier: StoredPush, _ reading: Readings.Stored) -> Bool {
        switch reading {
        case .topic: earlier.entry.topic == entry.topic
        case .app: ServerPushType.bundleID(of: earlier.entry.topic) == ServerPushType.bundleID(of: entry.topic)
        case .collapseID:
            entry.collapseID != nil && earlier.entry.collapseID == entry.collapseID && earlier.entry.topic == entry.topic
        }
    }
}

extension TokenRecord {
    /// A broadcast. Changed in place: a copy of an inbox under the world's lock would delay all other threads.
    /// - Parameter keeps: The channel keeps it for devices that are off.
    mutating func receive(_ entry: Inbox.Entry, keeps: Bool, rules: WorldRules, now: Int64) -> [DeviceResult] {
        guard installation?.state.hasApp == true, let channelID = entry.target.channelID else { return [] }
        guard installation?.isOnline == true else {
            installation?.missed += 1
            installation?.awaited.insert(channelID)
            return [DeviceResult(keeps ? .stored : .dropped)]
        }
        return installation?.playBroadcast(entry, onlyUnseen: false, rules: rules, now: now) ?? []
    }
}

extension TokenRecord.Installation {
    /// APNs keeps a push without an expiration for thirty days.
    private static let longestStorage: Int64 = 30 * 86_400_000

    /// How a device treats an accepted push. A background push never shows, and one with an alert is dropped without a word (docs/apns.md,
    /// Devices).
    mutating func receive(_ facts: PushFacts, for target: PushTarget, id: MessageID, rules: WorldRules, now: Int64) -> DeviceResult {
        accepted += 1
        guard state.hasApp, target != .device || state == .installed else { return DeviceResult(.dropped) }
        guard let reading = facts.content, let content = reading.content else { return DeviceResult(.silent) }
        let latest = now + Self.longestStorage
        let expiresAt: Int64? =
            switch facts.expiration {
            case nil: latest
            case 0: nil
            case let seconds?: min(unixMilliseconds(Int64(seconds)), latest)
            }
        let entry = Inbox.Entry(
            receivedAt: now, id: id, topic: facts.topic, type: target == .device ? facts.type : facts.type ?? .liveactivity,
            collapseID: facts.collapseID, content: reading, target: target, priority: facts.priority, expiresAt: expiresAt)
        let isSilent =
            switch facts.type {
            case _ where target != .device: false
            case .alert, nil: !content.isVisible
            case .liveactivity: !content.isVisible && content.activity == nil
            // Those go to the app or its extensions, which may show their own content.
            default: true
            }
        guard isOnline else {
            return store(StoredPush(entry: entry, isSilent: isSilent, expiresAt: expiresAt ?? 0), rules.readings.stored, now: now)
        }
        return isSilent ? DeviceResult(.silent) : show(entry, rules: rules, now: now)
    }

    private mutating func store(_ push: StoredPush, _ reading: Readings.Stored, now: Int64) -> DeviceResult {
        guard push.expiresAt > now else { return DeviceResult(.dropped) }
        stored.removeAll { push.takesPlace(of: $0, reading) }
        if stored.count == Inbox.maximumEntries { stored.removeFirst() }
        stored.append(push)
        return DeviceResult(.stored)
    }

    private mutating func show(_ entry: Inbox.Entry, rules: WorldRules, now: Int64) -> DeviceResult {
        guard let content = entry.content.content else { return DeviceResult(.silent) }
        if entry.target != .device || (entry.type == .liveactivity && content.activity != nil) {
            return play(entry, rules: rules, now: now)
        }
        if let badge = content.badge { self.badge = badge == 0 ? nil : badge }
        inbox.show(entry)
        return DeviceResult(.shown)
    }

    /// The waiting pushes, once the device is online again.
    mutating func takeStored(rules: WorldRules, now: Int64) -> [(push: StoredPush, result: DeviceResult)] {
        defer { stored = [] }
        return stored.map { push in
            if push.expiresAt <= now { return (push, DeviceResult(.expired)) }
            return (push, push.isSilent ? DeviceResult(.silent) : show(push.entry, rules: rules, now: now))
        }
    }

    /// Goes on as the same app with other settings.
    mutating func take(over earlier: TokenRecord.Installation) {
        inbox = earlier.inbox
        activities = earlier.activities
        badge = earlier.badge
        stored = earlier.stored
        channels = earlier.channels
        following = earlier.following
        missed = earlier.missed
        awaited = earlier.awaited
    }

    /// The app is gone, and with it its notifications.
    mutating func clear() {
        inbox = Inbox()
        activities.clear()
        startTokens = []
        badge = nil
        stored = []
        channels = []
        following = []
        missed = 0
        awaited = []
    }
}
