/// A push that waits for its device (docs/apns.md, Devices).
struct StoredPush {
    let entry: Inbox.Entry
    let isSilent: Bool
    /// UNIX milliseconds.
    let expiresAt: Int64
}

extension TokenRecord {
    /// A broadcast. Changed in place: a copy of an inbox under the world's lock would delay all other threads.
    /// - Parameter keeps: The channel keeps it for devices that are off.
    /// - Returns: nil if there is no app that could take it.
    mutating func receive(_ entry: Inbox.Entry, keeps: Bool, now: Int64) -> Reception? {
        guard installation?.state.hasApp == true else { return nil }
        guard installation?.isOnline == true else { return keeps ? .stored : .dropped }
        return installation?.show(entry, now: now)
    }
}

extension TokenRecord.Installation {
    /// APNs keeps a push without an expiration for thirty days.
    private static let longestStorage: Int64 = 30 * 86_400_000

    /// How a device treats an accepted push. A background push never shows, and one with an alert is dropped without a word (docs/apns.md,
    /// Devices).
    mutating func receive(_ facts: PushFacts, id: MessageID, now: Int64) -> Reception {
        accepted += 1
        guard case .installed = state else { return .dropped }
        guard let reading = facts.content, let content = reading.content else { return .silent }
        let latest = now + Self.longestStorage
        let expiresAt: Int64? =
            switch facts.expiration {
            case nil: latest
            case 0: nil
            case let seconds?: min(unixMilliseconds(Int64(seconds)), latest)
            }
        let entry = Inbox.Entry(
            receivedAt: now, id: id, topic: facts.topic, type: facts.type, collapseID: facts.collapseID,
            content: reading, expiresAt: expiresAt)
        let isSilent =
            switch facts.type {
            case .alert, nil: !content.isVisible
            case .liveactivity: !content.isVisible && content.activity == nil
            // Those go to the app or its extensions, which may show their own content.
            default: true
            }
        guard isOnline else { return store(StoredPush(entry: entry, isSilent: isSilent, expiresAt: expiresAt ?? 0), now: now) }
        return isSilent ? .silent : show(entry, now: now)
    }

    /// One per topic: the newest.
    private mutating func store(_ push: StoredPush, now: Int64) -> Reception {
        guard push.expiresAt > now else { return .dropped }
        stored.removeAll { $0.entry.topic == push.entry.topic }
        stored.append(push)
        return .stored
    }

    mutating func show(_ entry: Inbox.Entry, now: Int64) -> Reception {
        guard let content = entry.content.content else { return .silent }
        var entry = entry
        if entry.type == .liveactivity, let activity = content.activity {
            if activities.isOutdated(entry, activity) { return .outdated }
            activities.note(entry, activity)
            entry.dismissAt = activity.dismissAt(now: now)
        }
        if let badge = content.badge { self.badge = badge == 0 ? nil : badge }
        inbox.show(entry)
        return .shown
    }

    /// The waiting pushes, once the device is online again.
    mutating func takeStored(now: Int64) -> [(push: StoredPush, reception: Reception)] {
        defer { stored = [] }
        return stored.map { push in
            if push.expiresAt <= now { return (push, .expired) }
            return (push, push.isSilent ? .silent : show(push.entry, now: now))
        }
    }

    /// The app is gone, and with it its notifications.
    mutating func clear() {
        inbox = Inbox()
        activities = SeenActivities()
        badge = nil
        stored = []
    }
}
