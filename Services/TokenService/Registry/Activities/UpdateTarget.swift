package import PushModel
package import TokenServiceApps
package import TokenServiceKit

/// What updates go to, one after another: a Live Activity, or a broadcast channel with all activities that follow it. Times are UNIX
/// milliseconds.
///
/// Beside the rules of its queue (``UpdateQueue``), the updates of an activity wait until a device has reported the update token
/// (`docs/guides/live-activities.md`).
package struct UpdateTarget: Equatable, Sendable {
    /// The system ends an activity eight hours after its start (Apple, "Displaying live data with Live Activities").
    package static let longestLife: Int64 = 8 * 3_600_000
    /// Quiet hours, a local time or a hold may hold a start back, so an activity without a token lives longer by that. The schema's
    /// function `lives_until` has the same rule.
    package static let longestStart: Int64 = 24 * 3_600_000
    /// Broadcasts of a channel are as far apart. Apple publishes no limit; beyond about one a second it answers `TooManyRequests`
    /// (docs/apns.md, Broadcasts).
    package static let broadcastWindow: Int64 = 1000

    package let key: Key
    package var attributesType: String?
    /// The ordinal of the broadcast channel that the activity follows, in `update_targets`; a statement of its own writes it.
    package private(set) var channel: Int64?
    /// When the last end of that channel was sent: the activity is over if it had started before.
    package var channelEndedAt: Int64?
    /// When its start was accepted or due; from the first report on, when that came. Nil: it is a channel.
    package var startedAt: Int64?
    /// When its start comes to the last time zone, if it is due at a local time and no device has reported it.
    package var startsUntil: Int64?
    /// A start to the user made it: the user's devices that have not reported a token of it may show it.
    package var isStartedForUser = false
    /// When a device first reported an update token.
    package var reportedAt: Int64?
    package var hasFrequentUpdates = false
    /// When the activity ended. When a channel's last end was sent: activities that had started before are over.
    package var endedAt: Int64?
    /// The end of a channel that set ``endedAt``, until APNs accepts a delivery of it or may have. If all deliveries end otherwise, it has
    /// ended nothing.
    var unconfirmedEnd: PushID?
    /// What ``endedAt`` was before that end.
    var endedBefore: Int64?
    package var staleAt: Int64?
    package var dismissedAt: Int64?
    package var queue = UpdateQueue()
    /// The newest state is an end.
    package var isEnd = false
    /// The update under way is an end. Only another end takes its place, also if an attempt fails.
    package var isSendingEnd = false

    /// Names an activity or a channel among all apps'. Texts are compared by bytes (``ExactText``).
    package struct Key: Hashable, Sendable, Comparable {
        package let app: App.ID
        package let owner: Owner
        /// The name that the app or its backend chose. Another owner's activity may have the same one.
        package let id: String

        package var isChannel: Bool { owner == .channel }

        package init(app: App.ID, owner: Owner, id: String) {
            self.app = app
            self.owner = owner
            self.id = id
        }

        package static func == (left: Key, right: Key) -> Bool {
            left.app == right.app && left.owner == right.owner && left.id.hasSameBytes(as: right.id)
        }

        package static func < (left: Key, right: Key) -> Bool {
            guard left.app == right.app else { return left.app < right.app }
            guard left.owner == right.owner else { return left.owner < right.owner }
            return left.id.utf8.lexicographicallyPrecedes(right.id.utf8)
        }
    }

    package enum Owner: Hashable, Sendable, Comparable {
        case user(String)
        /// The installation has no user.
        case installation(PushID)
        /// A broadcast channel's updates are nobody's.
        case channel

        package static func == (left: Owner, right: Owner) -> Bool {
            switch (left, right) {
            case (.user(let left), .user(let right)): left.hasSameBytes(as: right)
            case (.installation(let left), .installation(let right)): left == right
            case (.channel, .channel): true
            default: false
            }
        }

        package static func < (left: Owner, right: Owner) -> Bool {
            switch (left, right) {
            case (.user(let left), .user(let right)): left.utf8.lexicographicallyPrecedes(right.utf8)
            case (.installation(let left), .installation(let right)): left < right
            case (.channel, .installation), (.channel, .user), (.installation, .user): true
            case (.user, _), (.installation, _), (.channel, .channel): false
            }
        }
    }

    package init(key: Key, attributesType: String? = nil, startedAt: Int64? = nil, channel: Int64? = nil) {
        self.key = key
        self.attributesType = attributesType
        self.startedAt = startedAt
        self.channel = channel
    }
}

/// A start, an update or an end, of one Live Activity or of those that follow a broadcast channel, as a request states it.
package struct ActivityChange: Equatable, Sendable {
    package enum Event: String, Sendable { case start, update, end }

    package var subject: Subject
    package var event: Event
    /// UNIX seconds: a device shows the newest state.
    package var timestamp: Int64
    /// The sender stated no timestamp, so it is the platform's, by the clock of the process that took the request.
    package var isStamped = false
    /// UNIX seconds.
    package var staleDate: Int64?
    package var dismissalDate: Int64?
    package var attributesType: String?
    /// Apple's id of the broadcast channel that the started activity follows.
    package var channelID: String?

    package init(
        subject: Subject, event: Event, timestamp: Int64, isStamped: Bool = false, staleDate: Int64? = nil, dismissalDate: Int64? = nil,
        attributesType: String? = nil, channelID: String? = nil
    ) {
        self.subject = subject
        self.event = event
        self.timestamp = timestamp
        self.isStamped = isStamped
        self.staleDate = staleDate
        self.dismissalDate = dismissalDate
        self.attributesType = attributesType
        self.channelID = channelID
    }

    package enum Subject: Equatable, Sendable {
        /// An activity of the request's target by the name that the backend chose. A channel has such a name, too.
        case activity(String)
        case channel(String)
        /// The only activity of this attributes type that the target's user has. ``NotificationRequest/namingActivity(of:in:)`` finds it.
        case type(String)
    }
}

extension UpdateTarget {
    /// What becomes of an update when it is accepted.
    package enum Admission: Equatable, Sendable {
        case turn(UpdateQueue.Turn)
        /// The activity is over.
        case over
    }

    package func isOver(at now: Int64) -> Bool {
        let life = reportedAt == nil && channel == nil ? Self.longestStart : Self.longestLife
        return endedAt != nil || isEndedByChannel || (startsUntil ?? startedAt).map { now >= $0 + life } ?? false
    }

    /// A broadcast has ended the activity, and no sender of its own.
    private var isEndedByChannel: Bool {
        guard endedAt == nil, let startedAt, let channelEndedAt else { return false }
        return channelEndedAt >= startedAt
    }

    /// Accepts an update or an end.
    /// - Parameters:
    ///   - window: That of the app, for an activity.
    ///   - maySend: Its pushes can be made in the acceptance.
    ///   - superseded: Gets the notifications that it replaces.
    package mutating func accept(
        _ change: ActivityChange, as notification: PushID, priority: Int, window: Int64, maySend: Bool, now: Int64,
        superseded: inout [PushID]
    ) -> Admission {
        let (isEnding, wasRetrying) = (change.event == .end, queue.isRetrying)
        if key.isChannel {
            // No update replaces an end that waits. A channel outlives its activities: after the end, new ones may follow it.
            if isEnd, queue.isWaiting, !isEnding { return .turn(.outdated) }
        } else if isOver(at: now), !isEnding {
            // After an end only another end counts: it may move the dismissal.
            return .over
        }
        guard
            queue.accept(
                notification, timestamp: change.timestamp, replacesRetry: !isSendingEnd || isEnding, superseded: &superseded)
        else { return .turn(.outdated) }
        isEnd = isEnding
        staleAt = change.staleDate.map { $0 * 1000 }
        if isEnding {
            if !key.isChannel { endedAt = endedAt ?? now }
            dismissedAt = change.dismissalDate.map { max($0 * 1000, now) }
        }
        let turn = turn(of: notification, window: window, now: now)
        guard turn == .send else { return .turn(turn) }
        // Fan-out makes a broadcast. The control stream must have the end of an older one first: the relay sees to that.
        guard maySend, !wasRetrying, !key.isChannel else { return .turn(.wait(until: now)) }
        begin(notification, priority: priority, window: window, now: now)
        return .turn(.send)
    }

    /// An activity's end waits for no window.
    package func turn(of notification: PushID, window: Int64, now: Int64) -> UpdateQueue.Turn {
        queue.turn(
            of: notification, isReady: key.isChannel || reportedAt != nil,
            window: key.isChannel ? Self.broadcastWindow : endedAt == nil ? window : nil, now: now)
    }

    package mutating func begin(_ notification: PushID, priority: Int, window: Int64, now: Int64) {
        let window = priority == 10 && !hasFrequentUpdates ? window : nil
        queue.begin(notification, window: key.isChannel ? Self.broadcastWindow : window, now: now)
        isSendingEnd = isEnd && queue.newest == notification
        guard isSendingEnd, key.isChannel else { return }
        if unconfirmedEnd == nil { endedBefore = endedAt }
        unconfirmedEnd = notification
        endedAt = now
    }

    /// APNs has accepted a delivery of the notification, or may have.
    package mutating func arrived(_ notification: PushID) {
        if unconfirmedEnd == notification { (unconfirmedEnd, endedBefore) = (nil, nil) }
    }

    /// The notification has all its outcomes. The end of a channel that never arrived at APNs, such as one that was cancelled in time,
    /// is taken back.
    /// - Returns: the notification that may go next.
    package mutating func completed(_ notification: PushID) -> PushID? {
        if unconfirmedEnd == notification { (endedAt, unconfirmedEnd, endedBefore) = (endedBefore, nil, nil) }
        return queue.ended(notification)
    }

    /// An attempt failed, and another follows (``UpdateQueue/failed(_:mayBeReplaced:superseded:)``).
    package mutating func failed(_ notification: PushID, superseded: inout [PushID]) -> PushID? {
        queue.failed(notification, mayBeReplaced: !isSendingEnd || isEnd, superseded: &superseded)
    }

    /// A device of its owner has reported an update token.
    /// - Returns: whether the activity goes on there; else it ends on the device.
    package mutating func reported(hasFrequentUpdates: Bool?, now: Int64) -> Bool {
        let isFirst = reportedAt == nil
        reportedAt = reportedAt ?? now
        self.hasFrequentUpdates = hasFrequentUpdates ?? self.hasFrequentUpdates
        if isEndedByChannel {
            // An update of its own that waits goes nowhere.
            if queue.isWaiting { (queue.newest, queue.isWaiting) = (nil, false) }
            return false
        }
        // The start may have been held back: the activity began later than it was accepted.
        if isFirst { (startedAt, startsUntil) = (now, nil) }
        // The end that was accepted while it was starting waits for this token.
        return isFirst || !isOver(at: now)
    }

    /// A device has an update token to which the newest state was not sent. A copy of its notification takes its place in the queue.
    /// - Parameter sendable: The newest notification is copied if it is one of these.
    /// - Returns: the notification to copy; nil if none has to go again.
    package mutating func renew(as copy: PushID, ofThese sendable: Set<PushID>, now: Int64) -> PushID? {
        guard !queue.isWaiting, let newest = queue.newest, sendable.contains(newest), !isOver(at: now) else { return nil }
        queue.newest = copy
        queue.isWaiting = true
        return newest
    }
}

/// A start names an activity of its user that exists and is not over.
package struct ActivityExists: ProblemError {

    package init() {}
    package var problem: APIError {
        APIError(
            .activityExists, "an activity of this id is not over; update or end it, or start another id. Nothing was accepted")
    }
}
