import ChaosChecking
import ChaosLedger
import PushModel
import Testing

@Suite("The checker finds forbidden pushes, and not those that only look like them", .timeLimit(.minutes(5)))
struct PushJudgementTests {
    private func judge(_ change: (inout Story) -> Void) throws -> [Promise: Int] {
        var story = Story.ordinary
        change(&story)
        return try story.judge().counts
    }

    @Test("A push needs a request that may have been accepted") func phantoms() throws {
        func findings(_ status: Int?) throws -> [Promise: Int] {
            try judge { story in
                story.send(3, to: "ada", at: 7000, status: status)
                story.push(3, 1, at: 7100)
            }
        }
        #expect(try findings(400) == [.phantom: 1])
        #expect(try findings(503) == [:])
        #expect(try findings(nil) == [:])
        #expect(try judge { $0.push(9, 1, at: 7100) } == [.phantom: 1])
        // Before it was asked for.
        #expect(try judge { $0.pushList[0].time = Story.moment(4000) } == [.phantom: 1])
    }

    @Test("A notification that was accepted without an answer counts as recovered") func recovered() throws {
        var story = Story.ordinary
        story.send(3, to: "ada", at: 7000, status: nil)
        story.push(3, 1, at: 7100)
        #expect(try story.judge().figures.recovered == 1)
    }

    @Test("A push before its time is found") func early() throws {
        func findings(_ time: Int64) throws -> [Promise: Int] {
            try judge { story in
                story.send(3, to: "ada", at: 7000) { $0.notBefore = Story.moment(9000) }
                story.push(3, 1, at: time)
                story.report(3, [(1, .accepted)])
            }
        }
        #expect(try findings(8990) == [.early: 1])
        #expect(try findings(9000) == [:])
    }

    @Test("Another app's topic or device is found") func crossApp() throws {
        #expect(try judge { $0.pushList[0].topic = "com.example.bank" } == [.crossApp: 1])
        #expect(try judge { $0.pushList[0].token = Story.token(1, "bank") }[.crossApp] == 1)
    }

    @Test("No push comes after the expiry, except after a standstill in between") func afterExpiry() throws {
        func findings(_ time: Int64, frozen: Bool = false) throws -> [Promise: Int] {
            try judge { story in
                if frozen { story.fault(.freeze, "dispatcher-1", from: 7900, to: 14_900) }
                story.send(3, to: "ada", at: 7000) { $0.expiresAt = Story.moment(8000) }
                story.push(3, 1, at: time)
                story.report(3, [(1, .accepted)])
            }
        }
        #expect(try findings(9001) == [.afterExpiry: 1])
        #expect(try findings(8900) == [:])
        #expect(try findings(15_000, frozen: true) == [:])
        #expect(try findings(17_000, frozen: true) == [.afterExpiry: 1])
    }

    @Test("No push comes a second after the answer to a cancellation; a refused one stops nothing") func afterCancel() throws {
        func findings(_ time: Int64, status: Int? = 200, fence: ClientRecord.Fence = .effective) throws -> [Promise: Int] {
            try judge { story in
                story.send(3, to: "ada", at: 7000)
                story.cancel(3, at: 8000, status: status, fence: fence)
                story.push(3, 1, at: time)
                story.report(3, [(1, .accepted)])
            }
        }
        #expect(try findings(9011) == [.afterCancel: 1])
        #expect(try findings(9010) == [:])
        #expect(try findings(9500, status: 404) == [:])
        #expect(try findings(9500, status: nil) == [:])
        #expect(try findings(9500, fence: .pending) == [:])
        #expect(try findings(15_000, fence: .pending) == [.afterCancel: 1])
        #expect(try findings(15_000, fence: ClientRecord.Fence.none) == [:], "it was too late, and said so")
    }

    @Test("No push comes during a hold, and all come after it") func duringAHold() throws {
        func findings(_ time: Int64, lane: Lane? = nil) throws -> [Promise: Int] {
            try judge { story in
                story.send(3, to: "ada", at: 7000) { $0.lane = .now }
                story.ask(.hold, at: 8000) { record in (record.hold, record.lane) = (Story.notification(50), lane) }
                story.ask(.lift, at: 20_000) { $0.hold = Story.notification(50) }
                story.push(3, 1, at: time)
                story.report(3, [(1, .accepted)])
            }
        }
        #expect(try findings(9500) == [.afterHold: 1])
        #expect(try findings(9500, lane: .now) == [.afterHold: 1])
        #expect(try findings(9500, lane: .bulk) == [:])
        #expect(try findings(8900) == [:])
        #expect(try findings(20_000) == [:])
    }

    // MARK: Owners

    /// Ada's notification is pushed to device 1 at that moment, after something happened to it.
    private func pushed(at time: Int64, app: String = "shop", after change: (inout Story) -> Void) throws -> [Promise: Int] {
        try judge { story in
            story.register("ada", 7, at: 5500, app: app)
            story.send(3, to: "ada", at: 6900, app: app)
            change(&story)
            story.push(3, 7, at: time, app: app)
            story.report(3, app == "shop" ? [(1, .fenced), (7, .accepted)] : [(7, .accepted)], app: app)
            // A reason for the outcome of device 1, which is Ada's too.
            if app == "shop" { story.logout(1, at: 6950) }
        }
    }

    @Test(
        "A user who left a device a second ago gets nothing there",
        arguments: ["logout", "deregister", "other user", "no user", "token", "everywhere"])
    func afterLogout(way: String) throws {
        func leave(_ story: inout Story) {
            switch way {
            case "logout": story.logout(7, at: 8000)
            case "deregister": story.ask(.deregister, at: 8000, status: 204) { $0.installation = Story.installation(7) }
            case "other user": story.register("eve", 7, at: 8000)
            case "no user": story.register(nil, 7, at: 8000)
            case "token": story.register("eve", 8, token: 7, at: 8000)
            default: story.ask(.logout, at: 8000) { $0.user = "ada" }
            }
        }
        #expect(try pushed(at: 9011) { leave(&$0) } == [.afterLogout: 1])
        #expect(try pushed(at: 9010) { leave(&$0) } == [:])
        #expect(try pushed(at: 7000) { leave(&$0) } == [:])
    }

    @Test("Leaving that may not have happened ends nothing, nor does what came before") func unclearLeaving() throws {
        #expect(try pushed(at: 12_000) { $0.logout(7, at: 8000, status: 503) } == [:])
        #expect(try pushed(at: 12_000) { $0.logout(7, at: 8000, status: nil) } == [:])
        #expect(try pushed(at: 12_000) { $0.logout(7, at: 8000, status: 409) } == [:])
        #expect(try pushed(at: 12_000) { $0.logout(7, at: 5505) } == [:])
        // Ada came back.
        #expect(
            try pushed(at: 12_000) {
                $0.logout(7, at: 8000); $0.register("ada", 7, at: 8050)
            } == [:])
        // Perhaps.
        #expect(
            try pushed(at: 12_000) {
                $0.logout(7, at: 8000); $0.register("ada", 7, at: 8050, status: nil)
            } == [:])
        // Everywhere but here.
        #expect(
            try pushed(at: 12_000) { story in
                story.ask(.logout, at: 8000) { record in (record.user, record.except) = ("ada", Story.installation(7)) }
            } == [:])
        // The token moved to another installation of hers.
        #expect(try pushed(at: 12_000) { $0.register("ada", 8, token: 7, at: 8000) } == [:])
        // And she left that one.
        let left = try pushed(at: 12_000) { story in
            story.register("ada", 8, token: 7, at: 8000)
            story.logout(8, at: 9000)
        }
        #expect(left == [.afterLogout: 1])
    }

    @Test("A fence that was pending while the broker was away counts from its recovery") func pendingFence() throws {
        func leave(_ story: inout Story) {
            story.fault(.kill, "rabbitmq", from: 7500, to: 7500, recovered: 15_000)
            story.logout(7, at: 8000, fence: .pending)
        }
        #expect(try pushed(at: 19_000) { leave(&$0) } == [:])
        #expect(try pushed(at: 22_000) { leave(&$0) } == [.afterLogout: 1])
    }

    @Test("A repeated registration that took the token says nothing about the fence at the device before") func repeatedMove() throws {
        func move(_ story: inout Story, fence: ClientRecord.Fence) {
            story.fault(.freeze, "rabbitmq", from: 7500, to: 15_000)
            story.register("bob", 8, token: 7, at: 8000, fence: fence)
            story.register("bob", 8, token: 7, at: 9000, fence: ClientRecord.Fence.none)
        }
        #expect(try pushed(at: 14_000) { move(&$0, fence: .pending) } == [:])
        #expect(try pushed(at: 22_000) { move(&$0, fence: .pending) } == [.afterLogout: 1])
        #expect(try pushed(at: 14_000) { move(&$0, fence: .effective) } == [.afterLogout: 1])
    }

    @Test("Under the single policy another device of the user's ends the first") func singlePolicy() throws {
        #expect(try pushed(at: 12_000, app: "bank") { $0.register("ada", 8, at: 8000, app: "bank") } == [.afterLogout: 1])
        #expect(try pushed(at: 12_000) { $0.register("ada", 8, at: 8000) } == [:])
    }

    @Test("Pushes that a frozen dispatcher had decided come when it thaws, and no later ones") func frozenDispatcher() throws {
        func leave(_ story: inout Story) {
            story.fault(.freeze, "dispatcher-1", from: 7900, to: 15_000)
            story.logout(7, at: 8000)
        }
        #expect(try pushed(at: 15_500) { leave(&$0) } == [:])
        #expect(try pushed(at: 16_500) { leave(&$0) } == [.afterLogout: 1])
        #expect(
            try pushed(at: 15_500) { story in
                story.fault(.freeze, "token-service-1", from: 7900, to: 15_000)
                story.logout(7, at: 8000)
            } == [.afterLogout: 1])
    }

    @Test("A notification to a device goes there for any user until the device is deregistered") func toADevice() throws {
        func findings(_ kind: ClientRecord.Kind, _ time: Int64) throws -> [Promise: Int] {
            try judge { story in
                story.send(3, to: "", at: 7000) { record in
                    (record.target, record.user, record.installation) = (.installation, nil, Story.installation(1))
                }
                story.ask(kind, at: 8000) { $0.installation = Story.installation(1) }
                story.push(3, 1, at: time)
                story.report(3, [(1, .accepted)])
            }
        }
        #expect(try findings(.logout, 20_000) == [:])
        #expect(try findings(.deregister, 9010) == [:])
        #expect(try findings(.deregister, 9011) == [.afterLogout: 1])
    }

    @Test("A push to a device that never was the user's is found") func aStrangersDevice() throws {
        #expect(
            try judge { story in
                story.send(3, to: "ada", at: 7000)
                story.push(3, 1, at: 7050)
                story.push(3, 2, at: 7050)
                story.report(3, [(1, .accepted), (2, .accepted)])
            } == [.afterLogout: 1])
    }
}
