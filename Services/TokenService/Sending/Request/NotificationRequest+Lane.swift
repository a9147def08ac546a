package import PushModel
import TokenServiceApps
import TokenServiceKit

extension NotificationRequest {
    /// Whether the caller asked for a faster lane than the target's own: an administrator's right, because all apps share the lane.
    package var isLaneFaster: Bool { lane.isFaster(than: .derived(from: target, pushType)) }

    /// - Throws: ``APIError`` 403 where the caller may not choose that lane.
    func checkLane(of caller: Caller) throws(APIError) {
        guard !isLaneFaster || caller.scopes.contains(.admin) else {
            throw APIError(
                .laneNotAllowed, "a faster lane than the target's own needs the scope admin; leave lane out, or choose a slower one")
        }
    }
}

extension NotificationRequest.Target {
    var namesUsers: Bool {
        switch self {
        case .user, .users: true
        case .installation, .installations, .tokens, .tags, .all, .channel: false
        }
    }
}

extension Lane {
    /// A push to one user or device waits for no other, and a push to many does not delay others. No user waits for a background push.
    package static func derived(from target: NotificationRequest.Target, _ type: PushType) -> Lane {
        switch target {
        case .user, .installation: type == .background ? .soon : .now
        // A broadcast is one push.
        case .channel(_, let fallback): fallback == nil ? .now : .soon
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
