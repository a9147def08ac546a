// On Mac Catalyst the module can be imported, and all it declares is unavailable. Apple's pages of ActivityKit name iOS and iPadOS alone.
#if os(iOS) && !targetEnvironment(macCatalyst)
    public import ActivityKit
    import Foundation

    /// Forwards the tokens and the ends of Live Activities (Apple, "Starting and updating Live Activities with ActivityKit push
    /// notifications").
    ///
    /// A start token and an update token are different, and both can change while the app runs. Call each function in a task of its own;
    /// it runs until the activity ends or its task is cancelled.
    @available(iOS 17.2, *)
    @MainActor public enum ActivityTokens {
        /// The tokens with which the server starts activities of this type.
        public static func forwardStartTokens<Attributes: ActivityAttributes>(of type: Attributes.Type) async {
            for await token in Activity<Attributes>.pushToStartTokenUpdates {
                PushInbox.shared.put(.token(token, purpose: .activityStart(type: String(describing: type))))
            }
        }

        /// With the activity's type, and whether the person lets the app update its activities frequently.
        /// - Parameters:
        ///   - id: The app's own id of the activity, by which the server names it; ActivityKit's if nil.
        ///   - channel: The backend's name of the channel whose states it shows, if the device cannot follow the channel (below iOS 18).
        public static func forwardUpdateTokens<Attributes: ActivityAttributes>(
            of activity: Activity<Attributes>, as id: String? = nil, channel: String? = nil
        ) async {
            for await token in activity.pushTokenUpdates {
                PushInbox.shared.put(
                    .activityToken(
                        token, activity: id ?? activity.id, type: String(describing: Attributes.self),
                        frequentUpdates: ActivityAuthorizationInfo().frequentPushesEnabled, channel: channel))
            }
        }

        /// The person, the app or the server ends the activity.
        /// - Parameter id: As in ``forwardUpdateTokens(of:as:channel:)``.
        public static func forwardEnd<Attributes: ActivityAttributes>(of activity: Activity<Attributes>, as id: String? = nil) async {
            for await state in activity.activityStateUpdates where state == .ended || state == .dismissed {
                PushInbox.shared.put(.activityEnded(id ?? activity.id))
                return
            }
        }
    }
#endif
