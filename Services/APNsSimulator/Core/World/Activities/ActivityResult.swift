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
    /// By the app on the device.
    case startedLocally = "started_locally"
    case rotated
    /// By the person.
    case dismissed
    /// A start that APNs accepted and that never appears, as the scenario says (``Readings/Starts``).
    case startLost = "start_lost"
}

/// The result of an accepted push on its device.
struct Receipt {
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
