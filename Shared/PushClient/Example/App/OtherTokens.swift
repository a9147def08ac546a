import CoreLocation
import Foundation
import PushClient
import WidgetKit

#if compiler(>=6.2)
    import PushKit
#else
    // Swift 6.1 does not import the completion handler as `@Sendable`.
    @preconcurrency import PushKit
#endif

/// The shop has no such tokens, and does not call this. An app that has them calls `startTokens` in `Push.start()`, and names them in its
/// configuration: `purposes: [.alert, .widgets, .controls, .location, .voip]`.
extension Push {
    // Keep both as long as the process runs. PushKit holds its delegate weakly, and a registry that is gone gives no token.
    static let calls = Calls()
    static let locations = CLLocationManager()

    static func startTokens() {
        WidgetTokens.start(kinds: ["com.example.shop.orders"])
        ControlTokens.start(kind: "com.example.shop.door")
        locations.startMonitoringLocationPushes(completion: LocationTokens.forward)
        calls.start()
    }
}

final class Calls: NSObject, PKPushRegistryDelegate {
    private let registry = PKPushRegistry(queue: .main)

    func start() {
        registry.delegate = self
        registry.desiredPushTypes = [.voIP]
    }

    func pushRegistry(_ registry: PKPushRegistry, didUpdate credentials: PKPushCredentials, for type: PKPushType) {
        PushKitTokens.updated(credentials, for: type)
    }

    func pushRegistry(_ registry: PKPushRegistry, didInvalidatePushTokenFor type: PKPushType) {
        PushKitTokens.invalidated(type)
    }

    func pushRegistry(
        _ registry: PKPushRegistry, didReceiveIncomingPushWith payload: PKPushPayload, for type: PKPushType,
        completion: @escaping @Sendable () -> Void
    ) {
        // Report the call to CallKit here, for each push.
        completion()
    }
}
