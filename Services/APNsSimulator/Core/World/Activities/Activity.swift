/// A Live Activity of a device, from its start until the device forgets it (Apple: Starting and updating Live Activities with ActivityKit
/// push notifications).
package struct Activity {
    /// How updates reach it.
    enum Source: Equatable {
        /// Updates reach it by an update token of its own.
        case token(TokenKey)
        case channel(String)
        /// Updates reach it by the device's own token, which plays one activity for each topic and collapse id.
        case device(collapseID: [UInt8]?)
        /// The app alone updates it.
        case app
    }

    package enum State: String, Sendable {
        case active, stale, ended, dismissed
    }

    /// The system ends an activity, in milliseconds after its start.
    private static let longestLife: Int64 = 8 * 3_600_000
    /// An ended activity stays on the lock screen for at most four hours.
    private static let longestGoodbye: Int64 = 4 * 3_600_000

    let id: String
    /// Empty: any topic of Live Activities.
    let topic: [UInt8]
    let attributesType: String?
    /// Verbatim JSON.
    let attributes: String?
    /// UNIX milliseconds, as every moment here.
    let startedAt: Int64
    var source: Source

    private(set) var event = ActivityState.Event.start
    /// The timestamp of the newest state, UNIX seconds.
    private(set) var timestamp: Int64
    /// Verbatim JSON.
    private(set) var contentState: String?
    private(set) var staleAt: Int64?
    private(set) var updatedAt: Int64
    /// The push that the newest state came with; nil if the app has set it.
    private(set) var newestPush: MessageID?
    /// When a push ended it; nil while it goes on, and when the system has ended it.
    private var endedAt: Int64?
    private var dismissalDate: Int64?
    /// When the person dismissed it.
    private var dismissedAt: Int64?
    /// The budget of updates with priority 10.
    private var budget = Throttle(pushes: 0, milliseconds: 3_600_000)

    init(
        id: String, topic: [UInt8], attributesType: String?, attributes: String?, source: Source, _ state: ActivityState,
        push: MessageID?, now: Int64
    ) {
        self.id = id
        self.topic = topic
        self.attributesType = attributesType
        self.attributes = attributes
        self.source = source
        startedAt = now
        updatedAt = now
        timestamp = state.timestamp
        set(state, push: push, now: now)
    }

    /// When it ends, or has ended.
    var endsAt: Int64 { endedAt ?? startedAt + Self.longestLife }

    /// When it leaves the lock screen, or has left it.
    var leavesAt: Int64 { min(endsAt + Self.longestGoodbye, dismissalDate ?? .max, dismissedAt ?? .max) }

    func state(now: Int64) -> State {
        if leavesAt <= now { return .dismissed }
        if endsAt <= now { return .ended }
        return staleAt.map { $0 <= now } ?? false ? .stale : .active
    }

    func isOver(now: Int64) -> Bool { leavesAt <= now || endsAt <= now }

    /// The newest state wins, and after the end nothing changes it.
    /// - Parameter limit: How many updates with priority 10 it shows in an hour; nil is any number.
    mutating func take(_ state: ActivityState, of push: Inbox.Entry, limit: Int64?, now: Int64) -> ActivityResult {
        if isOver(now: now) { return .afterEnd }
        if state.timestamp < timestamp { return .outdated }
        if state.event == .update, push.priority == 10, let limit {
            budget.pushes = limit
            if !budget.admits(now) { return .overBudget }
        }
        set(state, push: push.id, now: now)
        return state.event == .end ? .ended : .updated
    }

    private mutating func set(_ state: ActivityState, push: MessageID?, now: Int64) {
        event = state.event
        newestPush = push
        timestamp = state.timestamp
        // An end may come without a state: the last one stays on the screen.
        contentState = state.contentState ?? contentState
        staleAt = state.staleDate.map { unixMilliseconds($0) }
        updatedAt = now
        guard state.event == .end else { return }
        endedAt = now
        dismissalDate = state.dismissalDate.map { unixMilliseconds($0) }
    }

    mutating func dismiss(now: Int64) { dismissedAt = min(dismissedAt ?? now, now) }

    /// How many more updates with priority 10 it shows in this hour.
    func budgetLeft(of limit: Int64, now: Int64) -> Int64 {
        var budget = budget
        budget.pushes = limit
        return budget.left(now)
    }
}

/// A Live Activity as the control API and the page show it. Moments are UNIX milliseconds.
package struct ActivitySummary: Sendable, Equatable {
    package let id: String
    package let attributesType: String?
    /// Verbatim JSON, as the content state.
    package let attributes: String?
    package let contentState: String?
    /// The event of the newest state.
    package let event: ActivityState.Event
    /// The timestamp of the newest state, UNIX seconds.
    package let timestamp: Int64
    package let state: Activity.State
    /// Lower-case hex; nil if it follows a channel, and if no token of its own reaches it.
    package let updateToken: String?
    package let channelID: String?
    package let topic: String
    package let startedAt: Int64
    package let updatedAt: Int64
    package let staleAt: Int64?
    package let endsAt: Int64
    package let leavesAt: Int64
    /// Updates with priority 10 that it still shows in this hour; nil is any number.
    package let budgetLeft: Int64?

    init(_ activity: Activity, limit: Int64?, now: Int64) {
        id = activity.id
        attributesType = activity.attributesType
        attributes = activity.attributes
        contentState = activity.contentState
        event = activity.event
        timestamp = activity.timestamp
        state = activity.state(now: now)
        updateToken =
            switch activity.source {
            case .token(let token): token.hex
            case .channel, .device, .app: nil
            }
        channelID =
            switch activity.source {
            case .channel(let id): id
            case .token, .device, .app: nil
            }
        topic = String(decoding: activity.topic, as: UTF8.self)
        startedAt = activity.startedAt
        updatedAt = activity.updatedAt
        staleAt = activity.staleAt
        endsAt = activity.endsAt
        leavesAt = activity.leavesAt
        budgetLeft = limit.map { activity.budgetLeft(of: $0, now: now) }
    }
}
