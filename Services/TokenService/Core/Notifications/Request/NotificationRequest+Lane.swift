package import PushModel

extension NotificationRequest {
    /// Whether a faster lane was asked for than the target has by itself: an administrator's right, because it is everybody's road.
    package var isLaneFaster: Bool { lane.isFaster(than: .derived(from: target, pushType)) }

    /// - Throws: ``APIError`` 403 where the caller may not choose that lane.
    func checkLane(of caller: Caller) throws(APIError) {
        guard !isLaneFaster || caller.scopes.contains(.admin) else { throw APIError.laneNotAllowed }
    }
}

extension NotificationRequest.Target {
    var namesUsers: Bool {
        switch self {
        case .user, .users: true
        case .installation, .installations, .tokens, .tags, .all: false
        }
    }
}

extension Lane {
    /// What goes to one waits for nothing, what goes to many does not hold up others. Nobody waits for a background push.
    package static func derived(from target: NotificationRequest.Target, _ type: PushType) -> Lane {
        switch target {
        case .user, .installation: type == .background ? .soon : .now
        case .users, .installations, .tokens: target.isLong ? .bulk : .soon
        case .tags, .all: .bulk
        }
    }

    package func isFaster(than other: Lane) -> Bool { speed > other.speed }

    private var speed: Int {
        switch self {
        case .now: 2
        case .soon: 1
        case .bulk: 0
        }
    }
}
