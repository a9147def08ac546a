// On Mac Catalyst the module can be imported, and all it declares is unavailable. Apple's pages of ActivityKit name iOS and iPadOS alone.
#if os(iOS) && !targetEnvironment(macCatalyst)
    public import ActivityKit
    import Foundation

    /// Puts what ActivityKit says of Live Activities into ``PushInbox/shared`` (Apple, "Starting and updating Live Activities with
    /// ActivityKit push notifications"). It decides nothing.
    @available(iOS 16.2, *)
    @MainActor public enum ActivityTokens {
        private static var followed: Set<ObjectIdentifier> = []

        /// Follows all Live Activities of this type for as long as the process runs: their start token (iOS 17.2), the update token of
        /// each, and its end; also if a push started it, or an earlier launch.
        ///
        /// Call it before `application(_:didFinishLaunchingWithOptions:)` returns. If a push starts an activity, iOS launches the app in
        /// the background and gives it a few seconds. A second call for the same type changes nothing.
        ///
        /// The server and Apple's payload know a type by its short name, `Attributes` for `Ride.Attributes`. So the short names of an app's
        /// types must differ: two types of one short name share a start token. A private type has another full name at each launch, and
        /// then an end that no process saw is not reported.
        ///
        /// - Parameters:
        ///   - id: The app's own id of the activity, by which the server names it; ActivityKit's if it is left out.
        ///   - channel: The backend's name of the channel whose states it shows, if the device cannot follow the channel (below iOS 18).
        public static func follow<Attributes: ActivityAttributes>(
            _ type: Attributes.Type, id: @escaping (Activity<Attributes>) -> String = { $0.id },
            channel: @escaping (Activity<Attributes>) -> String? = { _ in nil }
        ) {
            guard followed.insert(ObjectIdentifier(type)).inserted else { return }
            let follower = ActivityFollower(id: id, channel: channel)
            // Before this returns: iOS may suspend an app soon that it launched in the background.
            follower.start()
            let look: @MainActor () -> Void = { follower.look() }
            AppActivation.each { await look() }
        }
    }

    @available(iOS 16.2, *)
    @MainActor private final class ActivityFollower<Attributes: ActivityAttributes> {
        /// The type as Apple's payload names it.
        private let type = String(describing: Attributes.self)
        private let fullType = String(reflecting: Attributes.self)
        private let id: (Activity<Attributes>) -> String
        private let channel: (Activity<Attributes>) -> String?
        /// How long the process has followed the type, without the time in which it was suspended.
        private var age = Duration.zero
        /// The activities that this process has seen, and whose end it has not: the app's ids by ActivityKit's.
        private var observed: [String: String] = [:]
        private var isEnabled = true

        init(id: @escaping (Activity<Attributes>) -> String, channel: @escaping (Activity<Attributes>) -> String?) {
            (self.id, self.channel) = (id, channel)
        }

        func start() {
            look()
            Task {
                for await activity in Activity<Attributes>.activityUpdates { observe(activity) }
            }
            Task {
                for await _ in ActivityAuthorizationInfo().activityEnablementUpdates { readStartToken() }
            }
            if #available(iOS 17.2, *) {
                Task {
                    for await token in Activity<Attributes>.pushToStartTokenUpdates { put(start: token) }
                }
            }
            Task {
                // ActivityKit loads nothing while the process is suspended: a second that lasts for an hour is one second.
                while age < KnownActivities.loading {
                    try? await SystemPushClock().sleep(for: .seconds(1))
                    age += .seconds(1)
                }
                look()
            }
        }

        func look() {
            readStartToken()
            for activity in Activity<Attributes>.activities { observe(activity) }
            // An activity that has just begun may be missing in ActivityKit's list.
            PushInbox.shared.put(.activities(observed, type: fullType, age: age))
        }

        private func readStartToken() {
            guard #available(iOS 17.2, *) else { return }
            let wasEnabled = isEnabled
            isEnabled = ActivityAuthorizationInfo().areActivitiesEnabled
            if isEnabled {
                if let token = Activity<Attributes>.pushToStartToken { put(start: token) }
            } else if wasEnabled {
                PushInbox.shared.put(
                    .tokenFailed(purpose: .activityStart(type: type), message: "Live Activities are switched off for this app"))
            }
        }

        private func put(start token: Data) {
            PushInbox.shared.put(.token(token, purpose: .activityStart(type: type)))
        }

        private func observe(_ activity: Activity<Attributes>) {
            guard activity.isRunning else { return end(activity.id) }
            let (instance, id, channel) = (activity.id, id(activity), channel(activity))
            if let token = activity.pushToken { put(token, of: instance, id, channel) }
            guard observed.updateValue(id, forKey: instance) == nil else { return }
            Task {
                for await token in activity.pushTokenUpdates { put(token, of: instance, id, channel) }
            }
            Task {
                for await state in activity.activityStateUpdates where state == .ended || state == .dismissed { end(instance) }
            }
        }

        private func end(_ instance: String) {
            guard let id = observed.removeValue(forKey: instance) else { return }
            PushInbox.shared.put(.activityEnded(id, instance: instance))
        }

        private func put(_ token: Data, of instance: String, _ id: String, _ channel: String?) {
            PushInbox.shared.put(
                .activityToken(
                    token, activity: id, instance: instance, type: type, fullType: fullType,
                    frequentUpdates: ActivityAuthorizationInfo().frequentPushesEnabled, channel: channel))
        }
    }

    @available(iOS 16.2, *)
    extension Activity {
        /// It can still be updated. One that is scheduled for later counts, too.
        fileprivate var isRunning: Bool { activityState != .ended && activityState != .dismissed }
    }
#endif
