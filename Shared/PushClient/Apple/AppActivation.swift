#if canImport(Network)
    import Foundation
    #if os(macOS)
        import AppKit
    #elseif os(watchOS)
        import WatchKit
    #else
        import UIKit
    #endif

    /// Runs work for tokens that the app must read, because the system hands them to no callback of the app.
    @MainActor enum AppActivation {
        /// Runs `read` now and whenever the person opens the app, one at a time, as long as the app lives.
        static func each(_ read: @escaping @Sendable () async -> Void) {
            let (moments, continuation) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
            continuation.yield()
            _ = NotificationCenter.default.addObserver(forName: didBecomeActive, object: nil, queue: nil) { _ in continuation.yield() }
            Task {
                for await _ in moments { await read() }
            }
        }

        private static var didBecomeActive: Notification.Name {
            #if os(macOS)
                NSApplication.didBecomeActiveNotification
            #elseif os(watchOS)
                WKApplication.didBecomeActiveNotification
            #else
                UIApplication.didBecomeActiveNotification
            #endif
        }
    }
#endif
