public import Foundation

/// The token of location pushes (iOS, iPadOS). It does not import CoreLocation: an app without a location does not link it.
public enum LocationTokens {
    /// The completion handler of `CLLocationManager.startMonitoringLocationPushes(completion:)`, which the app calls at each launch: puts
    /// the token or the failure into ``PushInbox/shared``.
    @Sendable public static func forward(_ token: Data?, _ error: (any Error)?) {
        PushInbox.shared.put(
            token.map { .token($0, purpose: .location) }
                ?? .tokenFailed(purpose: .location, message: error.map { "\($0)" } ?? "no token and no error"))
    }

    /// Beside `CLLocationManager.stopMonitoringLocationPushes()`, and at a launch of an app that does not monitor now: the server forgets
    /// the token.
    public static func stopped() {
        PushInbox.shared.put(.noToken(purpose: .location))
    }
}
