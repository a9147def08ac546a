import ChaosChecking
import ChaosLedger
import PushModel
import Testing

@Suite("A clock that was set excuses at most its step, and only while it is wrong", .timeLimit(.minutes(5)))
struct ClockJudgementTests {
    /// A clock is wrong from 20 to 40 s, by so many milliseconds.
    private func judge(step: Int64, _ write: (inout Story) -> Void) throws -> [Promise: Int] {
        var story = Story.ordinary
        story.fault(.clock, "token-service-1", from: 20_000, to: 40_000)
        story.faultList[0].step = step * 1000
        write(&story)
        return try story.judge().counts
    }

    /// A notification that is due at `due` and sent at `time`.
    private func early(step: Int64, due: Int64, at time: Int64) throws -> [Promise: Int] {
        try judge(step: step) { story in
            story.send(3, to: "ada", at: 10_000) { $0.notBefore = Story.moment(due) }
            story.push(3, 1, at: time)
            story.report(3, [(1, .accepted)])
        }
    }

    @Test("A process whose clock is ahead sends too early, by at most its step") func beforeItsTime() throws {
        #expect(try early(step: 60_000, due: 80_000, at: 25_000) == [:])
        #expect(try early(step: 60_000, due: 90_000, at: 25_000) == [.early: 1])
        #expect(try early(step: -60_000, due: 80_000, at: 25_000) == [.early: 1])
        #expect(try early(step: 60_000, due: 80_000, at: 19_000) == [.early: 1])
        #expect(try early(step: 60_000, due: 80_000, at: 45_100) == [.early: 1])
    }

    private func late(step: Int64, expiry: Int64, at time: Int64) throws -> [Promise: Int] {
        try judge(step: step) { story in
            story.send(3, to: "ada", at: 10_000) { $0.expiresAt = Story.moment(expiry) }
            story.push(3, 1, at: time)
            story.report(3, [(1, .accepted)])
        }
    }

    @Test("A process whose clock is behind sends after the expiry, by at most its step") func afterItsExpiry() throws {
        #expect(try late(step: -30_000, expiry: 12_000, at: 30_000) == [:])
        #expect(try late(step: -10_000, expiry: 12_000, at: 30_000) == [.afterExpiry: 1])
        #expect(try late(step: 30_000, expiry: 12_000, at: 30_000) == [.afterExpiry: 1])
        #expect(try late(step: -60_000, expiry: 12_000, at: 50_000) == [.afterExpiry: 1])
    }

    @Test("A process whose clock is ahead lets a notification expire too early, by at most its step") func expiredTooSoon() throws {
        func expired(step: Int64, expiry: Int64, sent: Int64 = 25_000) throws -> [Promise: Int] {
            try judge(step: step) { story in
                story.send(3, to: "ada", at: sent) { $0.expiresAt = Story.moment(expiry) }
                story.report(3, [(1, .expired)])
            }
        }
        #expect(try expired(step: 400_000, expiry: 440_000) == [:])
        #expect(try expired(step: 300_000, expiry: 440_000) == [.lost: 1])
        #expect(try expired(step: 400_000, expiry: 440_000, sent: 50_000) == [.lost: 1])
    }

    @Test("A hold ends too early for a process whose clock is ahead, by at most its step") func endsOfHolds() throws {
        func held(step: Int64, until end: Int64) throws -> [Promise: Int] {
            try judge(step: step) { story in
                story.ask(.hold, at: 12_000) { record in
                    (record.hold, record.fence, record.expiresAt) = (Story.notification(99), .effective, Story.moment(end))
                }
                story.send(3, to: "ada", at: 14_000)
                story.push(3, 1, at: 25_000)
                story.report(3, [(1, .accepted)])
            }
        }
        #expect(try held(step: 60_000, until: 70_000) == [:])
        #expect(try held(step: 60_000, until: 90_000) == [.afterHold: 1])
        #expect(try held(step: -60_000, until: 70_000) == [.afterHold: 1])
    }

    @Test("A notification that a token service accepted with a wrong clock does not wait for the clock") func waits() throws {
        for step in [3_600_000, -3_600_000] as [Int64] {
            let waiting = try judge(step: step) { story in
                story.send(3, to: "ada", at: 25_000)
                story.report(3, [], state: .accepted)
            }
            #expect(waiting == [.stuck: 1])
        }
    }

    @Test("A wrong clock excuses no second push and no push for a user who left") func nothingElse() throws {
        let twice = try judge(step: 60_000) { story in
            story.send(3, to: "ada", at: 24_000)
            story.push(3, 1, at: 25_000)
            story.push(3, 1, at: 26_000)
            story.report(3, [(1, .accepted)])
        }
        #expect(twice == [.duplicated: 1])
        let left = try judge(step: 60_000) { story in
            story.send(3, to: "ada", at: 24_000)
            story.logout(1, at: 25_000)
            story.push(3, 1, at: 27_000)
            story.report(3, [(1, .accepted)])
        }
        #expect(left == [.afterLogout: 1])
    }
}

@Suite("A link that needs TLS carries nothing else", .timeLimit(.minutes(5)))
struct WireJudgementTests {
    @Test("The checker finds one connection without TLS; a run without TLS shows nothing") func inTheClear() throws {
        func judge(_ inClear: Int?) throws -> Verdict {
            var story = Story.ordinary
            if let inClear {
                story.sampleList.append(
                    .wire(.init(at: Story.moment(1), name: "token-service-1>postgres", connections: 9, inClear: inClear)))
            }
            return try story.judge()
        }
        #expect(try judge(1).counts == [.inClear: 1])
        #expect(try judge(0).isKept)
        #expect(try judge(0).notJudged.contains(.inClear) == false)
        #expect(try judge(nil).notJudged.contains(.inClear))
    }
}
