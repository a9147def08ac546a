package import PushModel
package import StrictJSON

/// "Stop what matches this": set by an operator, until it is lifted or ends. Times are UNIX milliseconds.
package struct Hold: Equatable, Sendable {
    package enum State: String, CaseIterable, Sendable {
        case live, expired, lifted
    }

    package var id: PushID
    package var scope: HoldScope
    package var reason: String
    package var setAt: Int64
    /// The id of an API key.
    package var setBy: String
    /// Nil: until it is lifted.
    package var endsAt: Int64?
    package var lifting: Lifting?
    package var state: State
    /// Whether the control stream has what the state says.
    package var isTold: Bool

    package struct Lifting: Equatable, Sendable {
        package var at: Int64
        package var by: String
    }

    package var fence: FenceState {
        switch state {
        case .expired: .none
        case .live, .lifted: isTold ? .effective : .pending
        }
    }

    package func write(to writer: inout JSONWriter) {
        writer.object { object in
            object.field("id", id.description)
            object.field("app", scope.app?.text)
            if scope.lane == nil, scope.notification == nil { object.field("all", true) }
            object.field("lane", scope.lane?.rawValue)
            object.field("notification", scope.notification?.description)
            object.field("state", state.rawValue)
            object.field("reason", reason)
            object.time("set_at", setAt)
            object.field("set_by", setBy)
            object.time("expires_at", endsAt)
            object.time("lifted_at", lifting?.at)
            object.field("lifted_by", lifting?.by)
            object.field("fence", fence.rawValue)
        }
    }
}

/// More holds would be in force at once than dispatchers are meant to remember.
package struct TooManyHolds: Error {}

/// A hold names a notification that the app does not have.
package struct UnknownNotification: Error {}
