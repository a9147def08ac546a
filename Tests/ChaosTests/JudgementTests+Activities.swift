import ChaosChecking
import ChaosLedger
import PushModel
import Testing

@Suite("The checker finds each fault of a Live Activity alone, and not its innocent twin", .timeLimit(.minutes(5)))
struct ActivityJudgementTests {
    private func expect(
        _ promise: Promise, sourceLocation: SourceLocation = #_sourceLocation, _ guilty: (inout Story) -> Void,
        unlike innocent: (inout Story) -> Void
    ) throws {
        var (story, twin) = (Story.riding, Story.riding)
        guilty(&story)
        let verdict = try story.judge()
        #expect(verdict.counts == [promise: 1], "\(verdict.examples)", sourceLocation: sourceLocation)
        innocent(&twin)
        let twinVerdict = try twin.judge()
        #expect(twinVerdict.isKept, "\(twinVerdict.examples)", sourceLocation: sourceLocation)
    }

    @Test("An activity that shows its newest state passes, and is counted") func correctRun() throws {
        var story = Story.riding
        story.delivered(51, .update, 101, at: 11_000, pushedAt: 11_050)
        story.shows(51)
        let verdict = try story.judge()
        #expect(verdict.isKept, "\(verdict.examples)")
        #expect(verdict.figures.activities == 1)
        #expect(verdict.figures.lockScreens == 1)
        #expect(verdict.notJudged.isDisjoint(with: [.overtaken, .lockScreens]))
        #expect(try Story.ordinary.judge().notJudged.isSuperset(of: [.overtaken, .lockScreens]))
    }

    // MARK: Order

    @Test("A state after a newer one is out of order; the repeat of a push whose fate was unknown is not") func order() throws {
        func write(_ story: inout Story, first: Push.Fate) {
            story.fault(.kill, "dispatcher-1", from: 11_100, to: 11_100, recovered: 12_000)
            story.change(51, .update, 101, at: 11_000)
            story.activityPush(51, at: 11_050, fate: first)
            story.delivered(52, .update, 102, at: 12_000, pushedAt: 12_050)
            story.activityPush(51, at: 12_500)
            story.report(51, [(5, .accepted)])
            story.shows(52)
        }
        try expect(.overtaken) {
            write(&$0, first: .refused(429))
        } unlike: {
            write(&$0, first: .accepted)
        }
    }

    @Test("An update is cancelled only for a newer state") func replaced() throws {
        func write(_ story: inout Story, newer: Int64) {
            story.change(51, .update, 102, at: 11_000)
            story.report(51, [(5, .cancelled)])
            story.delivered(52, .update, newer, at: 10_500, pushedAt: 10_550)
            story.shows(52)
        }
        var story = Story.riding
        write(&story, newer: 101)
        let verdict = try story.judge()
        #expect(verdict.counts == [.lost: 1, .lockScreens: 1], "\(verdict.examples)")
        var twin = Story.riding
        write(&twin, newer: 103)
        let twinVerdict = try twin.judge()
        #expect(twinVerdict.isKept, "\(twinVerdict.examples)")
    }

    @Test("An update is cancelled for a copy of its own only if an app reported a token after it") func replacedByCopy() throws {
        func write(_ story: inout Story, reportedAt: Int64) {
            story.change(51, .update, 101, at: 11_000)
            story.report(51, [(5, .cancelled)])
            story.activityPush(51, at: 12_000)
            story.pushList[story.pushList.count - 1].id = PushID(high: 9, low: 9)
            story.shows(51)
            story.reportToken(at: reportedAt)
        }
        var story = Story.riding
        write(&story, reportedAt: 10_900)
        #expect(try story.judge().counts[.lost] == 1)
        var twin = Story.riding
        write(&twin, reportedAt: 11_900)
        let twinVerdict = try twin.judge()
        #expect(twinVerdict.isKept, "\(twinVerdict.examples)")
    }

    @Test("A delivery to an update token is stopped only if the token was over") func stoppedDelivery() throws {
        func write(_ story: inout Story, reportedAt: Int64) {
            story.change(51, .update, 101, at: 11_000)
            story.report(51, [(5, .fenced)])
            story.delivered(52, .update, 102, at: 12_000, pushedAt: 12_050)
            story.shows(52)
            story.reportToken(at: reportedAt)
        }
        try expect(.lost) {
            write(&$0, reportedAt: 10_900)
        } unlike: {
            write(&$0, reportedAt: 11_100)
        }
    }

    @Test("A second delivery of an update to one token is a copy only if an app reported a token after it") func copies() throws {
        func write(_ story: inout Story, reportedAt: Int64) {
            story.delivered(51, .update, 101, at: 11_000, pushedAt: 11_050)
            story.activityPush(51, at: 12_000)
            story.pushList[story.pushList.count - 1].id = PushID(high: 9, low: 9)
            story.shows(51)
            story.reportToken(at: reportedAt)
        }
        try expect(.idempotency) {
            write(&$0, reportedAt: 10_900)
        } unlike: {
            write(&$0, reportedAt: 11_900)
        }
    }

    // MARK: Lock screens

    @Test("A newer state that was accepted must show; one that may be refused need not") func newestState() throws {
        func write(_ story: inout Story, status: Int?) {
            story.change(51, .update, 101, at: 11_000, status: status)
            if status == 202 { story.report(51, [], state: .noTargets) }
            story.shows(50)
        }
        try expect(.lockScreens) {
            write(&$0, status: 202)
        } unlike: {
            write(&$0, status: nil)
        }
    }

    @Test("An update need not show if it expired before the device had a token") func expiredBeforeTheToken() throws {
        func write(_ story: inout Story, expiresAt: Int64) {
            story.clientList.removeAll { $0.kind == .report }
            story.change(51, .update, 101, at: 11_000, expiresAt: expiresAt)
            story.report(51, [], state: .expired)
            story.reportToken(at: 30_000)
            story.shows(50)
        }
        try expect(.lockScreens) {
            write(&$0, expiresAt: 60_000)
        } unlike: {
            write(&$0, expiresAt: 20_000)
        }
    }

    @Test("An accepted end ends it, also if an update was accepted after it") func end() throws {
        func write(_ story: inout Story, _ shown: Int64, _ state: ShownRecord.State) {
            story.delivered(51, .end, 101, at: 11_000, pushedAt: 11_050)
            story.change(52, .update, 102, at: 12_000)
            story.report(52, [], state: .noTargets)
            story.shows(shown, state)
        }
        try expect(.lockScreens) {
            write(&$0, 51, .active)
        } unlike: {
            write(&$0, 51, .ended)
        }
        try expect(.lockScreens) {
            write(&$0, 50, .ended)
        } unlike: {
            write(&$0, 51, .dismissed)
        }
    }

    @Test("An end shows its state, or removes the activity if its token came after the end was accepted") func endWithoutItsState() throws {
        func write(_ story: inout Story, endedAt: Int64) {
            story.clientList.removeAll { $0.kind == .report }
            story.reportToken(at: 10_500)
            story.delivered(51, .end, 101, at: endedAt, pushedAt: 11_050)
            story.shows(50, .dismissed)
        }
        try expect(.lockScreens) {
            write(&$0, endedAt: 10_600)
        } unlike: {
            write(&$0, endedAt: 10_400)
        }
    }

    @Test("Nothing is over without an end, but by the person") func overWithoutAnEnd() throws {
        try expect(.lockScreens) {
            $0.shows(50, .dismissed)
        } unlike: {
            $0.shows(50, .dismissed, isSwiped: true)
        }
    }

    @Test("A lock screen shows what its backend sent") func strangeContent() throws {
        try expect(.lockScreens) {
            $0.shows(nil)
        } unlike: {
            $0.shows(50)
        }
        try expect(.lockScreens) {
            $0.shows(1)
        } unlike: {
            $0.shows(50)
        }
    }

    // MARK: Users who leave

    @Test("Nothing for a user who has left reaches the device, and nothing is left over") func left() throws {
        func write(_ story: inout Story, pushedAt: Int64, _ state: ShownRecord.State) {
            story.delivered(51, .update, 101, at: 11_000, pushedAt: pushedAt)
            story.registerPhone("bob", at: 12_000)
            story.activityPush(nil, at: 12_100)
            story.shows(51, state)
        }
        try expect(.afterLogout) {
            write(&$0, pushedAt: 13_100, .dismissed)
        } unlike: {
            write(&$0, pushedAt: 12_900, .dismissed)
        }
        try expect(.afterLogout) {
            write(&$0, pushedAt: 11_050, .active)
        } unlike: {
            write(&$0, pushedAt: 11_050, .ended)
        }
    }

    @Test("The platform ends an activity of its own accord only if the user may have left, or a person dismissed it") func clearing() throws
    {
        func dismiss(_ story: inout Story) {
            story.ask(.dismiss, at: 11_000) { ($0.installation, $0.activity) = (Story.installation(6), "ride") }
        }
        try expect(.phantom) { story in
            story.activityPush(nil, at: 12_100)
            story.shows(50, .dismissed, isSwiped: true)
        } unlike: { story in
            dismiss(&story)
            story.activityPush(nil, at: 12_100)
            story.shows(50, .dismissed)
        }
        // The user has left another device, which may have been the last one that had reported a token.
        try expect(.phantom) { story in
            story.activityPush(nil, at: 12_100)
            story.shows(50, .dismissed, isSwiped: true)
        } unlike: { story in
            story.ask(.report, at: 10_200) { record in
                (record.installation, record.activity) = (Story.installation(6), "ride")
                record.tokens = [Story.updateToken(6)]
            }
            story.activityPush(nil, at: 12_100)
            story.shows(50, .dismissed)
        }
        try expect(.phantom) { story in
            story.activityPush(nil, at: 12_100, token: Story.token(5))
        } unlike: { story in
            story.ask(.logout, at: 12_000) { $0.installation = Story.installation(5) }
            story.activityPush(nil, at: 12_100)
        }
    }

    @Test("An activity's push has the topic of Live Activities") func topic() throws {
        try expect(.crossApp) { story in
            story.delivered(51, .update, 101, at: 11_000, pushedAt: 11_050)
            story.pushList[story.pushList.count - 1].topic = "com.example.shop"
        } unlike: { story in
            story.delivered(51, .update, 101, at: 11_000, pushedAt: 11_050)
        }
    }
}
