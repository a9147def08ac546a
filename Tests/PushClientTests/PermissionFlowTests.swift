import Foundation
import Testing

@testable import PushClient

@Suite struct PermissionFlowTests {
    private let now = Date(timeIntervalSince1970: 1_800_000_000)
    private func ago(days: Double) -> Date { now.addingTimeInterval(-days * 86_400) }

    @Test(arguments: [
        (PushPermission.notDetermined, PermissionFlow.Goal.full, true, PermissionFlow.Step.showOwnScreen),
        (.notDetermined, .full, false, .nothing),
        (.notDetermined, .quietFirst, false, .requestProvisional),
        (.notDetermined, .quietFirst, true, .requestProvisional),
        (.provisional, .quietFirst, true, .showOwnScreen),
        (.provisional, .quietFirst, false, .nothing),
        (.provisional, .full, true, .showOwnScreen),
        (.denied, .full, true, .offerSettings),
        (.denied, .quietFirst, true, .offerSettings),
        (.denied, .full, false, .nothing),
        (.authorized, .full, true, .nothing),
        (.ephemeral, .full, true, .nothing),
    ])
    func theFirstStep(permission: PushPermission, goal: PermissionFlow.Goal, isGoodMoment: Bool, step: PermissionFlow.Step) {
        let flow = PermissionFlow(goal: goal)
        #expect(flow.nextStep(permission, history: PermissionFlow.History(), isGoodMoment: isGoodMoment, now: now) == step)
    }

    @Test func aNotNowRests() {
        let flow = PermissionFlow()
        func step(_ postponed: [Date]) -> PermissionFlow.Step {
            flow.nextStep(.notDetermined, history: PermissionFlow.History(postponed: postponed), isGoodMoment: true, now: now)
        }
        #expect(step([ago(days: 29)]) == .nothing)
        #expect(step([ago(days: 30)]) == .showOwnScreen)
        #expect(step([ago(days: 90), ago(days: 60), ago(days: 31)]) == .nothing)
        // The clock was wrong when the person said it.
        #expect(step([ago(days: -400)]) == .showOwnScreen)
    }

    @Test func theSettingsAreOfferedRarely() {
        let flow = PermissionFlow()
        let history = PermissionFlow.History(offeredSettings: [ago(days: 10)])
        #expect(flow.nextStep(.denied, history: history, isGoodMoment: true, now: now) == .nothing)
        let later = PermissionFlow.History(offeredSettings: [ago(days: 40)])
        #expect(flow.nextStep(.denied, history: later, isGoodMoment: true, now: now) == .offerSettings)
    }
}
