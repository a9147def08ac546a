public import Foundation

/// `CoreLocation`: only what PushClient's guide calls, with the SDK's signatures. Apple's pages name iOS and iPadOS for these two.
open class CLLocationManager: NSObject {
    @available(iOS 15.0, *)
    @available(macCatalyst, unavailable)
    @available(macOS, unavailable)
    @available(tvOS, unavailable)
    @available(visionOS, unavailable)
    @available(watchOS, unavailable)
    open func startMonitoringLocationPushes(completion: (@Sendable (Data?, (any Error)?) -> Void)? = nil) { fatalError() }
    @available(iOS 15.0, *)
    @available(macCatalyst, unavailable)
    @available(macOS, unavailable)
    @available(tvOS, unavailable)
    @available(visionOS, unavailable)
    @available(watchOS, unavailable)
    open func stopMonitoringLocationPushes() { fatalError() }
}
