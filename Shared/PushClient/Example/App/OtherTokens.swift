import CoreLocation
import Foundation
import PushClient
import PushKit
import WidgetKit

@MainActor func startTokens(calls: Calls, locations: CLLocationManager) {
    WidgetTokens.start()
    ControlTokens.start(kind: "com.example.shop.door")
    locations.startMonitoringLocationPushes(completion: LocationTokens.forward)
    calls.start()
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
