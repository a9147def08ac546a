import Synchronization

/// What happens to a device's Live Activities without a push.
extension World {
    /// An activity that the app itself starts.
    struct LocalStart: Sendable {
        enum Updates: Sendable {
            case token
            case channel(String)
            case none
        }

        let id: String?
        let topic: [UInt8]
        let attributesType: String
        let attributes: String
        let contentState: String?
        let updates: Updates
    }

    enum ActivityChange: Sendable {
        case done(activityID: String)
        case unknownDevice
        case unknownActivity
        case unknownChannel
        /// The app is not on the device.
        case noApp
        /// The id, or the new token, is in use.
        case taken
        /// It is over, or follows a channel, or gets no pushes.
        case noToken
    }

    /// The app has to be on the device, and its activities need no network.
    func start(_ local: LocalStart, on token: TokenKey, now: Int64) -> ActivityChange {
        change { state in
            guard let device = state.records[token]?.installation else { return .unknownDevice }
            guard device.state.hasApp else { return .noApp }
            if case .channel(let id) = local.updates, state.broadcast.app(with: id, in: device.environment) == nil {
                return .unknownChannel
            }
            let id = device.activities.freeID(local.id, now: now)
            if let wanted = local.id, wanted != id { return .taken }
            let source: Activity.Source =
                switch local.updates {
                case .token: Activities.newToken().map { .token($0) } ?? .app
                case .channel(let id): .channel(id)
                case .none: .app
                }
            let content = ActivityState(startedLocally: local.contentState, timestamp: now / 1000)
            state.records[token]?.installation?.activities.begin(
                Activity(
                    id: id, topic: local.topic, attributesType: local.attributesType, attributes: local.attributes, source: source, content,
                    push: nil, now: now), now: now)
            state.note(.startedLocally, id, on: token, now: now)
            return .done(activityID: id)
        }
    }

    /// The system gives an activity another update token, and the old one is 410.
    /// - Parameter new: nil makes one.
    func rotateActivity(_ id: String, on token: TokenKey, to new: TokenKey?, now: Int64) -> ActivityChange {
        change { state in
            guard let device = state.records[token]?.installation else { return .unknownDevice }
            guard device.activities[id] != nil else { return .unknownActivity }
            if let new, state.records[new]?.installation != nil || state.records[new]?.purpose != nil { return .taken }
            guard let next = new ?? Activities.newToken(),
                state.records[token]?.installation?.activities.rotate(id, to: next, now: now) == true
            else { return .noToken }
            state.note(.rotated, id, on: token, now: now)
            return .done(activityID: id)
        }
    }

    func dismissActivity(_ id: String, on token: TokenKey, now: Int64) -> ActivityChange {
        change { state in
            guard let isKnown = state.records[token]?.installation?.dismiss(id, now: now) else { return .unknownDevice }
            guard isKnown else { return .unknownActivity }
            state.note(.dismissed, id, on: token, now: now)
            return .done(activityID: id)
        }
    }

    /// The activities that the device remembers, the oldest first; nil if no such device was ever installed.
    func activities(of token: TokenKey, now: Int64) -> (changes: Int64, activities: [ActivitySummary])? {
        let found = state.withLock { state in state.records[token]?.installation.map { ($0.activities, $0.activityLimit(state.rules)) } }
        return found.map { activities, limit in
            (activities.changes, activities.all.map { ActivitySummary($0, limit: limit, now: now) })
        }
    }
}

extension World.State {
    fileprivate mutating func note(_ result: ActivityResult, _ id: String, on token: TokenKey, now: Int64) {
        arrivals.append(Arrival(DeviceResult(result, activityID: id), token: token, now: now))
        followUp(token, now: now)
    }
}
