#if canImport(Network)
    import Foundation
    import Network

    /// Tells the inbox of good moments: the person opened the app, or the network came back.
    @MainActor final class NetworkWatch {
        private let monitor = NWPathMonitor()

        func start(appBecomesActive name: Notification.Name) {
            monitor.pathUpdateHandler = { path in
                if path.status == .satisfied { PushInbox.shared.put(.goodMoment) }
            }
            monitor.start(queue: DispatchQueue(label: "PushClient.network"))
            // The observer lives as long as the app.
            _ = NotificationCenter.default.addObserver(forName: name, object: nil, queue: nil) { _ in PushInbox.shared.put(.opened) }
        }
    }
#endif
