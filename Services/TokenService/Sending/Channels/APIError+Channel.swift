import TokenServiceKit

extension APIError {
    static let channelDiffers = APIError(
        .channelDiffers, "the name has a channel of another environment, storage or id, or the id has another name; nothing was changed")

    static func channelInUse(isFollowed: Bool) -> APIError {
        APIError(
            .channelInUse,
            "\(isFollowed ? "Live Activities follow it" : "a broadcast is on its way"); "
                + "force=true deletes it all the same. Nothing was changed")
    }

    static let channelDeleting = APIError(.channelDeleting, "Apple has not deleted the channel of this name yet")

    static let channelLost = APIError(.channelLost, "Apple does not have it any more; delete it, then create it again")

    static func channelNotOpen(_ state: BroadcastChannel.State) -> APIError {
        APIError(.channelNotOpen, "it is \(state.rawValue): no push can reach it. Nothing was sent")
    }

    static let channelLimit = APIError(
        .channelLimit, "an app may have \(ChannelStore.maximumInScope) channels in an environment; delete some first")

    /// - Parameter reason: Apple's own.
    static func channelRefused(_ reason: String?) -> APIError {
        guard reason != ChannelRefusal.limitReached else { return channelLimit }
        return APIError(.channelRefused, "Apple's reason: \(reason ?? "none")")
    }
}
