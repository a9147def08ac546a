import Observation
import SwiftUI
import os

/// Where the app is. A tap may choose a screen before there is one.
@MainActor @Observable final class Screens {
    enum Screen: Equatable {
        case home, signIn, conversation(String)
    }

    static let shared = Screens()

    private(set) var screen = Screen.home

    static func show(_ screen: Screen) { shared.screen = screen }
}

struct HomeScreen: View {
    @Environment(\.scenePhase) private var phase

    var body: some View {
        VStack {
            Text("\(Screens.shared.screen)")
            OrderPlaced()
            Button("Sign out") { Push.signOut() }
        }
        .task(id: phase) {
            if phase == .active { await Push.opened() }
        }
        .onChange(of: Screens.shared.screen, initial: true) {
            let thread: String? = if case .conversation(let thread) = Screens.shared.screen { thread } else { nil }
            Push.visibleThread.withLock { $0 = thread }
        }
        .onDisappear { Push.visibleThread.withLock { $0 = nil } }
    }
}
