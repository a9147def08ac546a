public import Foundation

/// The ephemeral token of push-to-talk (iOS, iPadOS), which works while the person is in a channel.
///
/// The app's `PTChannelManagerDelegate` calls it, because the same delegate plays the audio. A token may come before the person joins, and
/// the page does not say that joining again brings another one (Apple, "channelManager(_:receivedEphemeralPushToken:)"). So this keeps the
/// token in memory, and registers it while a channel is joined. It imports no framework: an app without push-to-talk links none.
public final class PushToTalkTokens: Sendable {
    private struct State {
        var token: Data?
        var isJoined = false
    }

    /// Puts its events into ``PushInbox/shared``.
    public static let shared = PushToTalkTokens(inbox: .shared)

    private let inbox: PushInbox
    private let state = Guarded(State())

    init(inbox: PushInbox) { self.inbox = inbox }

    /// Call this at launch, once the app has its `PTChannelManager`.
    /// - Parameter activeChannel: `PTChannelManager.activeChannelUUID`, after the system has restored a channel.
    public func started(activeChannel: UUID?) {
        if activeChannel == nil { left() } else { joined() }
    }

    /// Call this at launch, if the system gives no `PTChannelManager`.
    public func failed(_ error: any Error) {
        inbox.put(.tokenFailed(purpose: .pushtotalk, message: "\(error)"))
    }

    /// Call this in `channelManager(_:didJoinChannel:reason:)`.
    public func joined() {
        change { $0.isJoined = true }
    }

    /// Call this in `channelManager(_:receivedEphemeralPushToken:)`.
    public func received(_ token: Data) {
        change { $0.token = token }
    }

    /// Makes the server forget the token. Call it in `channelManager(_:didLeaveChannel:reason:)`.
    public func left() {
        state.withLock { $0.isJoined = false }
        inbox.put(.noToken(purpose: .pushtotalk))
    }

    private func change(_ change: (inout State) -> Void) {
        let token = state.withLock { state -> Data? in
            change(&state)
            return state.isJoined ? state.token : nil
        }
        if let token { inbox.put(.token(token, purpose: .pushtotalk)) }
    }
}
