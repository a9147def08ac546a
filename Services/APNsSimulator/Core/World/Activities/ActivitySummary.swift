/// A Live Activity as the control API and the page show it. Moments are UNIX milliseconds.
package struct ActivitySummary: Sendable, Equatable {
    package let id: String
    package let attributesType: String?
    /// Verbatim JSON, as the content state.
    package let attributes: String?
    package let contentState: String?
    /// Of the newest state.
    package let event: ActivityState.Event
    /// Of the newest state, UNIX seconds.
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
