import SwiftUI

/// Where the app is. A tap may choose a screen before there is one: the stream keeps the last choice.
enum Screens: Equatable {
    case home, signIn, conversation(String)

    static let (shown, chosen) = AsyncStream<Screens>.makeStream(bufferingPolicy: .bufferingNewest(1))

    static func show(_ screen: Screens) { chosen.yield(screen) }
}

struct HomeScreen: View {
    @State private var screen = Screens.home
    @Environment(\.scenePhase) private var phase

    var body: some View {
        VStack {
            Text("\(screen)")
            OrderPlaced()
            Button("Sign out") { Push.signOut() }
        }
        .task(id: phase) {
            if phase == .active { await Push.opened() }
        }
        .task {
            for await next in Screens.shown {
                screen = next
                let thread: String? = if case .conversation(let thread) = next { thread } else { nil }
                Push.visibleThread.withLock { $0 = thread }
            }
        }
    }
}
