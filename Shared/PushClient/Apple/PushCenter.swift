#if canImport(UserNotifications)
    public import Foundation
    #if os(iOS) || os(visionOS)
        import UIKit
    #endif
    import UserNotifications

    /// The system's notification centre: the permission, and the badge where apps have one.
    public struct PushCenter: Sendable {
        /// It holds no state: each call asks `UNUserNotificationCenter.current()`.
        public init() {}

        /// What the person allows now. The person may change it in the Settings, so the app asks again whenever it is opened.
        public func permission() async -> PushPermission {
            switch await UNUserNotificationCenter.current().notificationSettings().authorizationStatus {
            case .notDetermined: .notDetermined
            case .denied: .denied
            case .authorized: .authorized
            case .provisional: .provisional
            #if os(iOS) || os(visionOS)
                case .ephemeral: .ephemeral
            #endif
            @unknown default: .authorized
            }
        }

        /// Lets the system ask the person, which it does once in the life of an install.
        ///
        /// - Parameter isProvisional: The system asks nothing; notifications appear quietly.
        /// - Returns: The permission after that.
        public func request(isProvisional: Bool = false) async throws -> PushPermission {
            let options: UNAuthorizationOptions = isProvisional ? [.alert, .badge, .sound, .provisional] : [.alert, .badge, .sound]
            _ = try await UNUserNotificationCenter.current().requestAuthorization(options: options)
            return await permission()
        }
    }

    extension PushClient {
        /// States the profile anew: language, time zone, versions, and what the person allows now. For each time that the app is opened.
        public func refreshProfile(_ bundle: Bundle = .main) async {
            let permission = await PushCenter().permission()
            updateProfile { profile in
                profile.refresh(bundle)
                profile.permission = permission
            }
        }
    }

    #if os(iOS) || os(visionOS)
        extension PushCenter {
            /// The address of the app's page of notifications in the Settings: for SwiftUI's `openURL`, or `UIApplication.open(_:)`.
            public var settings: URL? { URL(string: UIApplication.openNotificationSettingsURLString) }
        }
    #endif

    // An app on watchOS has no badge (Apple, "setBadgeCount(_:withCompletionHandler:)").
    #if !os(watchOS)
        extension PushCenter: PushBadge {
            /// See ``PushBadge/set(_:)``. Throws what `UNUserNotificationCenter.setBadgeCount(_:)` throws.
            public func set(_ count: Int) async throws {
                try await UNUserNotificationCenter.current().setBadgeCount(count)
            }
        }
    #endif
#endif
