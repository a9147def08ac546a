import PushClient
import SwiftUI

@main
struct ShopApp: App {
    @UIApplicationDelegateAdaptor(ShopDelegate.self) private var delegate

    init() { Push.start() }

    var body: some Scene { WindowGroup { HomeScreen() } }
}

/// Its base gets the tokens, the taps and the silent pushes.
final class ShopDelegate: PushAppDelegate {
    /// The payload has `content-available: 1`. The system waits for the answer, about 30 seconds at most.
    override func receiveSilently(_ notification: PushNotification) async throws -> SilentPushResult {
        try await Session.fetchOrders() ? .newData : .noData
    }
}
