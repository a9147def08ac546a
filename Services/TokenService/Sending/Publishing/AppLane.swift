package import PushModel

/// An app's work in one lane: it has its own limit and its own share.
package struct AppLane: Hashable, Sendable {
    package var app: AppSlug
    package var lane: Lane

    package init(app: AppSlug, lane: Lane) {
        self.app = app
        self.lane = lane
    }
}

extension JobTemplate {
    var appLane: AppLane { AppLane(app: app, lane: lane) }
}
