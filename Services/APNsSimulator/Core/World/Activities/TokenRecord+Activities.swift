extension TokenRecord.Installation {
    /// How many times as many updates an activity shows with frequent updates. Apple publishes no number.
    static let frequentUpdatesFactor: Int64 = 4

    /// How many updates with priority 10 each of its activities shows in an hour; nil is any number.
    func activityLimit(_ rules: WorldRules) -> Int64? {
        rules.activityBudgetPerHour.map { Int64($0) * (hasFrequentUpdates ? Self.frequentUpdatesFactor : 1) }
    }

    /// Whether pushes to this topic may reach its start and update tokens.
    func takesActivities(of topic: [UInt8]) -> Bool {
        guard ServerPushType.liveactivity.fits(topic: topic[...]) else { return false }
        guard let topics else { return true }
        return topics.contains(topic) || topics.contains(Array(ServerPushType.bundleID(of: topic)))
    }

    /// Whether a broadcast to the channel concerns it: an activity follows, or the control API has named the channel.
    func listens(to channelID: String, now: Int64) -> Bool {
        channels.contains(channelID) || activities.follows(channelID, now: now)
    }

    /// A Live Activity's push, but no broadcast.
    mutating func play(_ entry: Inbox.Entry, rules: WorldRules, now: Int64) -> DeviceResult {
        guard let content = entry.content.content, let state = content.activity, entry.type == .liveactivity else {
            return DeviceResult(.noEvent)
        }
        switch entry.target {
        case .start(let type):
            if let fault = content.startFault(for: type) { return DeviceResult(fault) }
            if rules.readings.starts == .lost { return DeviceResult(.startLost) }
            let source: Activity.Source? = state.inputPushChannel.map { .channel($0) } ?? Activities.newToken().map { .token($0) }
            return begin(entry, state, source ?? .app, id: state.activityID, now: now)
        case .update(let id):
            guard state.event != .start else { return DeviceResult(.notAnUpdate, activityID: id) }
            return take(entry, state, id, rules: rules, now: now)
        case .device:
            if state.event == .start, rules.readings.starts == .lost { return DeviceResult(.startLost) }
            let source = Activity.Source.device(collapseID: entry.collapseID)
            let earlier = activities.all.first { $0.source == source && $0.topic == entry.topic }
            if let earlier, state.event != .start { return take(entry, state, earlier.id, rules: rules, now: now) }
            if let earlier { drop(earlier.id) }
            let name = entry.collapseID ?? Array(ServerPushType.bundleID(of: entry.topic))
            return begin(entry, state, source, id: state.activityID ?? String(decoding: name, as: UTF8.self), now: now)
        case .channel: return DeviceResult(.noEvent)
        }
    }

    /// A broadcast reaches every activity that follows its channel. If the control API has named the channel, the first one begins an
    /// activity.
    /// - Parameter onlyUnseen: Leaves out activities that have had this state: it was stored.
    mutating func playBroadcast(_ entry: Inbox.Entry, onlyUnseen: Bool, rules: WorldRules, now: Int64) -> [DeviceResult] {
        guard let channelID = entry.target.channelID, let state = entry.content.content?.activity else { return [] }
        let reached = activities.following(channelID)
        if reached.isEmpty {
            return channels.contains(channelID) ? [begin(entry, state, .channel(channelID), id: channelID, now: now)] : []
        }
        return reached.compactMap { id in
            if onlyUnseen, activities[id]?.newestPush == entry.id { return nil }
            return take(entry, state, id, rules: rules, now: now)
        }
    }

    private mutating func begin(
        _ entry: Inbox.Entry, _ state: ActivityState, _ source: Activity.Source, id: String?, now: Int64
    ) -> DeviceResult {
        let id = activities.freeID(id, now: now)
        activities.begin(
            Activity(
                id: id, topic: entry.topic, attributesType: state.attributesType, attributes: state.attributes, source: source, state,
                push: entry.id, now: now), now: now)
        show(entry, of: id)
        return DeviceResult(state.event == .end ? .ended : .started, activityID: id)
    }

    private mutating func take(
        _ entry: Inbox.Entry, _ state: ActivityState, _ id: String, rules: WorldRules, now: Int64
    ) -> DeviceResult {
        let result = activities.take(state, of: entry, for: id, limit: activityLimit(rules), now: now)
        if result == .updated || result == .ended { show(entry, of: id) }
        return DeviceResult(result, activityID: id)
    }

    private mutating func show(_ entry: Inbox.Entry, of id: String) {
        var entry = entry
        entry.activityID = id
        entry.dismissAt = activities[id]?.leavesAt
        if let badge = entry.content.content?.badge { self.badge = badge == 0 ? nil : badge }
        inbox.show(entry)
    }

    private mutating func drop(_ id: String) {
        activities.drop { $0.id == id }
        inbox.dismiss(activity: id)
    }

    /// The person swipes an activity away.
    /// - Returns: false if there is none of that id.
    mutating func dismiss(_ id: String, now: Int64) -> Bool {
        inbox.dismiss(activity: id)
        return activities.change(id) { $0.dismiss(now: now) } != nil
    }
}

extension DeviceContent {
    /// The reason why a start push starts nothing (iOS 17.2; Apple: Starting and updating Live Activities with ActivityKit push
    /// notifications).
    fileprivate func startFault(for type: String) -> ActivityResult? {
        guard let activity, activity.event == .start else { return .notAStart }
        guard hasAlertText else { return .noAlert }
        guard let given = activity.attributesType, !given.isEmpty else { return .noAttributesType }
        guard given == type else { return .otherAttributesType }
        return activity.attributes == nil ? .noAttributes : nil
    }
}

/// What a Live Activity's push did on its device, or what happened to an activity without a push.
package enum ActivityResult: String, Sendable, CaseIterable {
    case started, updated, ended
    /// Older than the state that the activity has.
    case outdated
    /// The activity has ended or was dismissed.
    case afterEnd = "after_end"
    /// One update with priority 10 too many in an hour.
    case overBudget = "over_budget"
    case noAlert = "no_alert"
    case noAttributesType = "no_attributes_type"
    /// The start token is for another attributes type.
    case otherAttributesType = "other_attributes_type"
    case noAttributes = "no_attributes"
    /// An update or end, sent to a start token.
    case notAStart = "not_a_start"
    /// A start, sent to an update token.
    case notAnUpdate = "not_an_update"
    /// The payload has no event, or the push type is another one.
    case noEvent = "no_event"
    /// The app on the device started it.
    case startedLocally = "started_locally"
    case rotated
    /// The person dismissed it.
    case dismissed
    /// A start that APNs accepted and that never appears, as the scenario says (``Readings/Starts``).
    case startLost = "start_lost"
}

/// The result of an accepted push on its device.
struct DeviceResult {
    let reception: Reception
    var activity: ActivityResult?
    var activityID: String?

    init(_ reception: Reception) { self.reception = reception }

    init(_ result: ActivityResult, activityID: String? = nil) {
        reception =
            switch result {
            case .started, .updated, .ended: .shown
            case .outdated, .afterEnd: .outdated
            case .startedLocally, .rotated, .dismissed: .device
            default: .ignored
            }
        activity = result
        self.activityID = activityID
    }
}
