import ActivityKit
import Foundation
import PushClient
import UserNotifications
import os

/// What the app does with pushes.
@MainActor enum Push {
    static let client = PushClient(
        PushConfiguration(
            app: "shop", server: .tokenService(URLSessionTransport(base: Session.pushServer), credentials: Backend()),
            store: SplitPushStore(
                secrets: KeychainPushStore(),
                rest: FilePushStore(folder: .applicationSupportDirectory.appending(path: "push")))))

    /// The conversation that the person looks at now. The system asks on any thread.
    nonisolated static let visibleThread = OSAllocatedUnfairLock<String?>(initialState: nil)

    /// At each launch, also one that a push or an action makes in the background.
    static func start() {
        UNUserNotificationCenter.current().setNotificationCategories(categories)
        PushNotificationDelegate.shared.decidePresentation { aps in
            .decide(aps, visibleThread: visibleThread.withLock { $0 })
        }
        client.updateProfile { $0.refresh() }
        if let user = Session.user { client.signIn(as: user) }
        ActivityTokens.follow(Ride.self, id: { $0.attributes.ride })
        client.onTap(
            PushRoutes(["MESSAGE": { await answer($0) }]) { tap in
                if tap.action == .open { Screens.show(.home) }
            })
        client.onNotification { _ in Task { try? await Session.fetchOrders() } }
        client.onNotice { notice in
            if case .signInRequired = notice { Task { @MainActor in Screens.show(.signIn) } }
        }
    }

    /// Each time that the person opens the app: they may have changed the permission or the language meanwhile.
    static func opened() async {
        await client.refreshProfile()
        // If this fails, the files stay for the next time.
        try? Shop.receipts?.collect(into: client)
        try? await PushCenter().clear()
    }

    static func signIn(as user: String) {
        Session.user = user
        client.signIn(as: user)
        Task { try? await Session.fetchKey() }
    }

    /// It holds without network, too: the client tells the server as soon as it can, if need be after the next launch.
    static func signOut() {
        Session.user = nil
        client.signOut()
        Shop.store(nil, named: "k1")
        Task { await endRides() }
    }

    /// They show the former user's rides. The platform ends only those that it knows.
    private static func endRides() async {
        for ride in Activity<Ride>.activities { await ride.end(nil, dismissalPolicy: .immediate) }
    }

    // MARK: Categories

    /// The payload's `category` chooses one. Without `customDismissAction` the system does not say that the person dismissed it.
    private static var categories: Set<UNNotificationCategory> {
        let reply = UNTextInputNotificationAction(
            identifier: "REPLY", title: "Reply", options: [], textInputButtonTitle: "Send", textInputPlaceholder: "Message")
        let like = UNNotificationAction(identifier: "LIKE", title: "Like", options: [])
        return [
            UNNotificationCategory(
                identifier: "MESSAGE", actions: [reply, like], intentIdentifiers: [], options: .customDismissAction),
            UNNotificationCategory(
                identifier: "ORDER", actions: [], intentIdentifiers: [], options: .customDismissAction),
        ]
    }

    /// The app may be in the background here. The system lets it run until this returns, at most 10 seconds.
    private static func answer(_ tap: PushTap) async {
        let thread = tap.notification.aps.threadID ?? ""
        switch tap.action {
        case .open: Screens.show(.conversation(thread))
        case .dismiss: break
        case .custom("REPLY"): _ = try? await Session.post("/messages", ["thread": thread, "text": tap.text])
        case .custom: _ = try? await Session.post("/likes", ["thread": thread])
        }
    }
}

/// Asks the shop's backend for a device credential. It hands on the answer of `POST /v1/apps/shop/device-credentials`.
struct Backend: CredentialSource {
    func credential(installation: UUID, user: String?) async throws -> DeviceCredential? {
        let answer = try await Session.post("/push-credential", ["installation": installation.uuidString, "user": user])
        return try answer.map { try DeviceCredential(answer: $0) }
    }
}
