import Foundation
import PushClient
import SwiftUI

/// When the app asks for the permission: the flow decides, and the app keeps its history.
@MainActor enum Permission {
    /// At a good moment: the person has just placed an order, say.
    static func nextStep() async -> PermissionFlow.Step {
        await PermissionFlow().nextStep(PushCenter().permission(), history: history, isGoodMoment: true, now: Date())
    }

    /// The system's question, after a yes on the app's own screen. Then the server learns the answer.
    static func ask() async {
        _ = try? await PushCenter().request()
        await Push.client.refreshProfile()
    }

    static func postpone() { history.postponed.append(Date()) }

    static func offeredSettings() { history.offeredSettings.append(Date()) }

    private static var history: PermissionFlow.History {
        get {
            UserDefaults.standard.data(forKey: "permission").flatMap { try? JSONDecoder().decode(PermissionFlow.History.self, from: $0) }
                ?? PermissionFlow.History()
        }
        set { UserDefaults.standard.set(try? JSONEncoder().encode(newValue), forKey: "permission") }
    }
}

/// The screen after an order, with the app's own question.
struct OrderPlaced: View {
    @State private var step = PermissionFlow.Step.nothing
    @Environment(\.openURL) private var openURL

    var body: some View {
        VStack {
            Text("Thank you!")
            if step == .showOwnScreen {
                Text("Shall we tell you when it is on its way?")
                Button("Yes") {
                    step = .nothing
                    Task { await Permission.ask() }
                }
                Button("Not now") {
                    step = .nothing
                    Permission.postpone()
                }
            }
            if step == .offerSettings, let settings = PushCenter().settings {
                Button("Allow notifications in the Settings") {
                    step = .nothing
                    openURL(settings)
                }
            }
        }
        .task {
            step = await Permission.nextStep()
            if step == .offerSettings { Permission.offeredSettings() }
        }
    }
}
