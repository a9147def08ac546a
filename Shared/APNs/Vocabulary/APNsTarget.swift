package import PushModel

/// Where the requests of a batch go.
package enum APNsTarget: Equatable, Sendable {
    /// `POST /3/device/<token>` (Apple: Sending notification requests to APNs).
    case device
    /// `POST /4/broadcasts/apps/<bundle id>`. The batch's topic is the bundle id, and the token of each request holds a channel's id
    /// (Apple: Sending broadcast push notification requests to APNs).
    case broadcast
    /// `/1/apps/<bundle id>/channels`. The batch's topic is the bundle id (Apple: Sending channel management requests to APNs).
    case channels(ChannelCommand.Request)

    package var service: APNsService {
        switch self {
        case .device: .device
        case .broadcast: .broadcast
        case .channels: .channels
        }
    }

    var method: String {
        switch self {
        case .device, .broadcast, .channels(.create): "POST"
        case .channels(.read), .channels(.list): "GET"
        case .channels(.delete): "DELETE"
        }
    }

    /// Nil if each request has its own.
    func path(topic: String) -> String? {
        switch self {
        case .device: nil
        case .broadcast: "/4/broadcasts/apps/\(topic)"
        case .channels(.list): "/1/apps/\(topic)/all-channels"
        case .channels: "/1/apps/\(topic)/channels"
        }
    }

    /// Apple's pages name both for a broadcast (docs/apns.md, Broadcasts).
    var idHeader: StaticString { self == .device ? "apns-id" : "apns-request-id" }
}

extension ChannelCommand.Request {
    /// The header `apns-channel-id`.
    var channel: ChannelID? {
        switch self {
        case .read(let channel), .delete(let channel): channel
        case .create, .list: nil
        }
    }
}
