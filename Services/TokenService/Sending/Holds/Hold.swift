package import PushModel
import StrictJSON
package import TokenServiceApps
package import TokenServiceKit
package import TokenServiceRegistry

/// "Stop what matches this": set by an operator, until it is lifted or ends. Times are UNIX milliseconds.
package struct Hold: Equatable, Sendable {
    package enum State: String, CaseIterable, Sendable {
        case live, expired, lifted
    }

    package var id: PushID
    /// Nil: over every app.
    package var appID: App.ID?
    package var scope: HoldScope
    package var reason: String
    package var setAt: Int64
    /// The id of an API key.
    package var setBy: String
    /// Nil: until it is lifted.
    package var endsAt: Int64?
    package var lifting: Lifting?
    package var state: State
    /// When the control stream last confirmed the hold, or its lifting where it is lifted.
    package var publishedAt: Int64?

    package struct Lifting: Equatable, Sendable {
        package var at: Int64
        package var by: String
    }

    package var fence: FenceState {
        switch state {
        case .expired: .none
        case .live, .lifted: publishedAt != nil ? .effective : .pending
        }
    }

    /// Whether the relay publishes it. The process that set or lifted it publishes it first. The control stream forgets after 74 hours,
    /// dispatchers after 73.
    /// - Parameter now: The time by the clock that wrote its moments, which is PostgreSQL's. One that lies ahead was written before that
    ///   was set back, and says nothing.
    func isDue(now: Int64) -> Bool {
        switch state {
        case .expired: false
        case .live: publishedAt.map { abs(now - $0) > 86_400_000 } ?? (abs(now - setAt) > 2000)
        case .lifted: publishedAt == nil && abs(now - (lifting?.at ?? 0)) > 2000
        }
    }

    static let page = PageResponse.schema("Holds", "holds", of: response)
    static let response = ResponseSchema<Hold>.object(
        "Hold",
        [
            .required("id", .uuid) { $0.id },
            .optional("app", .slug, "Absent: every app.") { $0.scope.app },
            .optional("all", .boolean, "Everything of the app, or of every app.") { $0.scope.isAll ? true : nil },
            .optional("lane", .word) { $0.scope.lane },
            .optional("notification", .uuid) { $0.scope.notification },
            .required("state", .word, "`live`: in force; `expired`: it ended by itself; `lifted`: an operator ended it.") { $0.state },
            .required("reason", .text()) { $0.reason },
            .required("set_at", .time) { $0.setAt },
            .required("set_by", .text(.keyID), "The API key's id.") { $0.setBy },
            .optional("expires_at", .time, "Absent: it lasts until it is lifted.") { $0.endsAt },
            .optional("lifted_at", .time) { $0.lifting?.at },
            .optional("lifted_by", .text(.keyID), "The API key's id.") { $0.lifting?.by },
            .required(
                "fence", .fence, "Whether the dispatchers' control stream has it, or that it is lifted; `none` where it expired."
            ) { $0.fence },
        ])
}

extension HoldScope {
    fileprivate var isAll: Bool { lane == nil && notification == nil }
}

/// More holds of the app, or over every app, would be in force at once than may be, or would have been set within 73 hours.
package struct TooManyHolds: ProblemError {
    package let maximum: Int
    package let areInForce: Bool

    package var problem: APIError {
        let detail = areInForce ? "are in force; lift one first" : "were set within 73 hours; set fewer, for longer"
        return APIError(.tooManyHolds, "\(maximum) holds \(detail)")
    }
}

/// A hold names a notification that the app does not have.
package struct UnknownNotification: ProblemError {
    package var problem: APIError {
        .invalid([JSONProblem(pointer: "/notification", code: "unknown_notification", detail: "the app has no such notification")])
    }
}
