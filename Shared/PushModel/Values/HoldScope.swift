/// The deliveries that a hold stops: those of one app, lane or notification, or a part of that.
package enum HoldScope: Hashable, Sendable {
    /// Of every app.
    case everything
    /// Of every app.
    case lane(Lane)
    case app(AppSlug)
    case appLane(AppSlug, Lane)
    case notification(AppSlug, PushID)

    package var app: AppSlug? {
        switch self {
        case .everything, .lane: nil
        case .app(let app), .appLane(let app, _), .notification(let app, _): app
        }
    }

    package var lane: Lane? {
        switch self {
        case .lane(let lane), .appLane(_, let lane): lane
        case .everything, .app, .notification: nil
        }
    }

    package var notification: PushID? {
        if case .notification(_, let notification) = self { notification } else { nil }
    }

    /// - Returns: nil if the parts do not go together: a lane and a notification, or a notification of no app.
    package init?(app: AppSlug?, lane: Lane?, notification: PushID?) {
        switch (app, lane, notification) {
        case (nil, nil, nil): self = .everything
        case (nil, let lane?, nil): self = .lane(lane)
        case (let app?, nil, nil): self = .app(app)
        case (let app?, let lane?, nil): self = .appLane(app, lane)
        case (let app?, nil, let notification?): self = .notification(app, notification)
        case (nil, _, _?), (_?, _?, _?): return nil
        }
    }
}
