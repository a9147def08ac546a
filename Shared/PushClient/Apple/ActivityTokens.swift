#if canImport(ActivityKit)
    public import ActivityKit
    import Foundation

    /// Forwards the tokens of Live Activities (Apple, "Starting and updating Live Activities with ActivityKit push notifications").
    ///
    /// A start token and an update token are different, and both can change while the app runs.
    @available(iOS 17.2, *)
    public enum ActivityTokens {
        /// Puts each start token into the inbox, as the installation's token for `liveactivity`. Runs until its task is cancelled.
        public static func forwardStartTokens<Attributes: ActivityAttributes>(of type: Attributes.Type) async {
            for await token in Activity<Attributes>.pushToStartTokenUpdates {
                PushInbox.shared.put(.token(token, purpose: .liveactivity))
            }
        }

        /// Hands each update token of an activity on, as hex digits. Runs until the activity ends or its task is cancelled.
        public static func forwardUpdateTokens<Attributes: ActivityAttributes>(
            of activity: Activity<Attributes>, to receive: @Sendable (_ activity: String, _ token: String) async -> Void
        ) async {
            for await token in activity.pushTokenUpdates {
                let hex = PushToken(token, purpose: .liveactivity, environment: .production).hex
                await receive(activity.id, hex)
            }
        }
    }
#endif
