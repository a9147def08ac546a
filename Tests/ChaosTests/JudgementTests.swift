import ChaosChecking
import ChaosLedger
import PushModel
import Testing

/// One fault, alone, and its innocent twin.
private func expect(
    _ promise: Promise, count: Int = 1, sourceLocation: SourceLocation = #_sourceLocation, _ guilty: (inout Story) -> Void,
    unlike innocent: (inout Story) -> Void
) throws {
    var story = Story.ordinary
    guilty(&story)
    let verdict = try story.judge()
    #expect(verdict.counts == [promise: count], "\(verdict.examples)", sourceLocation: sourceLocation)
    var twin = Story.ordinary
    innocent(&twin)
    let twinVerdict = try twin.judge()
    #expect(twinVerdict.isKept, "\(twinVerdict.examples)", sourceLocation: sourceLocation)
}

@Suite("The checker finds each fault alone, and not its innocent twin", .timeLimit(.minutes(5)))
struct JudgementTests {
    @Test("A correct run passes") func correctRun() throws {
        let verdict = try Story.ordinary.judge()
        #expect(verdict.isKept, "\(verdict.examples)")
        #expect(verdict.figures.acknowledged == 2)
        #expect(verdict.figures.delivered == 2)
    }

    @Test("A run that was cut off is not judged") func cutOffRun() {
        var story = Story.ordinary
        story.record.endedAt = nil
        #expect(throws: LedgerError.self) { try story.judge() }
    }

    // MARK: Lost

    @Test("Accepted and unknown to the API is lost; refused and unknown is not") func unknownToTheAPI() throws {
        try expect(.lost) {
            $0.send(3, to: "ada", at: 7000)
        } unlike: {
            $0.send(3, to: "ada", at: 7000, status: 503)
        }
    }

    @Test("Reported accepted without a push is lost") func acceptedWithoutAPush() throws {
        try expect(.lost) { story in
            story.send(3, to: "ada", at: 7000)
            story.report(3, [(1, .accepted)])
        } unlike: { story in
            story.send(3, to: "ada", at: 7000)
            story.push(3, 1, at: 9000)
            story.report(3, [(1, .accepted)])
        }
    }

    @Test("Counted accepted without receipts and without as many pushes is lost") func countedWithoutAPush() throws {
        func write(_ story: inout Story, _ devices: Set<Int>) {
            story.send(3, to: "", at: 7000) { record in (record.target, record.user) = (.all, nil) }
            for device in devices { story.push(3, device, at: 7100) }
            story.report(3, [(1, .accepted), (2, .accepted)], hasAllReceipts: false)
        }
        try expect(.lost) {
            write(&$0, [1])
        } unlike: {
            write(&$0, [1, 2])
        }
    }

    @Test("A device that certainly was the user's and got nothing is lost; one that may have left is not") func aDeviceLeftOut() throws {
        func write(_ story: inout Story) {
            story.send(3, to: "ada", at: 7000)
            story.report(3, [], state: .noTargets)
        }
        try expect(.lost) {
            write(&$0)
        } unlike: { story in
            story.logout(1, at: 6990)
            write(&story)
        }
    }

    @Test("Fenced, expired, cancelled and held need a request as their reason") func endsNeedAReason() throws {
        for outcome in [OutcomeClass.fenced, .expired, .cancelled, .held] {
            try expect(.lost) { story in
                story.send(3, to: "ada", at: 7000)
                story.report(3, [(1, outcome)])
            } unlike: { story in
                story.send(3, to: "ada", at: 7000) { record in if outcome == .expired { record.expiresAt = Story.moment(8000) } }
                switch outcome {
                case .fenced: story.logout(1, at: 7500)
                case .cancelled: story.cancel(3, at: 7500)
                case .held: story.ask(.hold, at: 7500) { $0.hold = Story.notification(99) }
                default: break
                }
                story.report(3, [(1, outcome)])
            }
        }
    }

    @Test("A request that names the token, or an installation that had it too, may have fenced") func fencedByToken() throws {
        try expect(.lost) { story in
            story.send(3, to: "ada", at: 7000)
            story.report(3, [(1, .fenced)])
        } unlike: { story in
            story.send(3, to: "ada", at: 7000)
            story.ask(.logout, at: 7500) { $0.tokens = [Story.token(1)] }
            story.report(3, [(1, .fenced)])
        }
        var story = Story.ordinary
        story.register("ada", 8, token: 1, at: 6500)
        story.send(3, to: "ada", at: 7000)
        story.logout(8, at: 7500)
        story.report(3, [(1, .fenced)])
        #expect(try story.judge().isKept)
    }

    @Test("A token that APNs rejected may have been retired before its job was published again") func fencedByRetirement() throws {
        func write(_ story: inout Story, refusedOf device: Int) {
            story.send(3, to: "ada", at: 7000)
            story.send(4, to: device == 1 ? "ada" : "bob", at: 7000)
            story.push(4, device, at: 7100, fate: .refused(410), timestamp: 7050)
            story.report(3, [(1, .fenced)])
            story.report(4, [(device, .tokenGone)])
        }
        try expect(.lost) {
            write(&$0, refusedOf: 2)
        } unlike: {
            write(&$0, refusedOf: 1)
        }
    }

    @Test("An old rejection by APNs retires a token late if faults lasted until then") func fencedAfterFaults() throws {
        func write(_ story: inout Story, isFrozen: Bool) {
            story.send(4, to: "ada", at: 7000)
            story.push(4, 1, at: 7100, fate: .refused(410), timestamp: 7050)
            story.report(4, [(1, .tokenGone)])
            if isFrozen { story.fault(.freeze, "postgres", from: 7200, to: 47_000) }
            story.send(3, to: "ada", at: 47_500)
            story.report(3, [(1, .fenced)])
        }
        try expect(.lost) {
            write(&$0, isFrozen: false)
        } unlike: {
            write(&$0, isFrozen: true)
        }
    }

    @Test("A failed delivery is lost if APNs never refused it, or refused it once without an expiry") func givenUp() throws {
        try expect(.lost) { story in
            story.send(3, to: "ada", at: 7000)
            story.report(3, [(1, .failed)])
        } unlike: { story in
            story.send(3, to: "ada", at: 7000) { $0.expiresAt = Story.moment(8000) }
            story.push(3, 1, at: 7100, fate: .refused(429))
            story.report(3, [(1, .failed)])
        }
        try expect(.lost) { story in
            story.send(3, to: "ada", at: 7000)
            story.push(3, 1, at: 7100, fate: .refused(429))
            story.report(3, [(1, .failed)])
        } unlike: { story in
            story.send(3, to: "ada", at: 7000)
            for time in stride(from: Int64(7000), to: 20_000, by: 2000) { story.push(3, 1, at: time, fate: .refused(503)) }
            story.report(3, [(1, .failed)])
        }
    }

    @Test("A notification without an end is stuck, unless it is not due yet") func stuck() throws {
        try expect(.stuck) { story in
            story.send(3, to: "ada", at: 7000)
            story.report(3, [], state: .sending, pending: 1)
        } unlike: { story in
            story.send(3, to: "ada", at: 7000) { $0.notBefore = Story.moment(400_000) }
            story.report(3, [], state: .scheduled)
        }
    }

    @Test("A waiting notification may be held by a hold that is in force at the end, and not by one that was lifted long before")
    func heldInTheEnd() throws {
        func findings(until end: Int64?) throws -> [Promise: Int] {
            var story = Story.ordinary
            story.ask(.hold, at: 6000) { record in
                record.hold = Story.notification(99)
                if let end { record.expiresAt = Story.moment(end) }
            }
            story.send(3, to: "ada", at: 7000)
            story.report(3, [], state: .sending)
            return try story.judge().counts
        }
        #expect(try findings(until: nil) == [:])
        #expect(try findings(until: 290_000) == [:])
        #expect(try findings(until: 200_000) == [.stuck: 1])
    }

    @Test("A waiting notification is lost if no queue holds its job any more") func missingJob() throws {
        func findings(queued: Int?, fate: Push.Fate) throws -> [Promise: Int] {
            var story = Story.ordinary
            story.send(3, to: "ada", at: 7000)
            story.push(3, 1, at: 7050, fate: fate)
            story.reportedList.append(
                .notification(
                    ReportedNotification(
                        app: "shop", id: Story.notification(3), state: .sending, hasAllReceipts: true, total: 1, pending: 1, counts: [],
                        deliveries: [ReportedDelivery(id: Story.delivery(3, 1), installation: Story.installation(1), outcome: nil)],
                        isComplete: true)))
            if let queued {
                story.sampleList.append(.queue(.init(at: Story.moment(1000), name: "push.jobs.now", depth: 4)))
                story.sampleList.append(.queue(.init(at: Story.moment(9000), name: "push.jobs.now", depth: 0)))
                story.sampleList.append(.queue(.init(at: Story.moment(9000), name: "push.retry.now.2m", depth: queued)))
            }
            return try story.judge().counts
        }
        #expect(try findings(queued: 0, fate: .refused(503)) == [.stuck: 1, .lost: 1])
        #expect(try findings(queued: 1, fate: .refused(503)) == [.stuck: 1])
        #expect(try findings(queued: nil, fate: .refused(503)) == [.stuck: 1])
        #expect(try findings(queued: 0, fate: .accepted) == [.stuck: 1])
    }

    // MARK: Twice

    @Test("A second push needs a death between the two") func duplicates() throws {
        try expect(.duplicated) {
            $0.push(1, 1, at: 5500)
        } unlike: { story in
            story.fault(.kill, "dispatcher-1", from: 5100, to: 5100, recovered: 7000)
            story.push(1, 1, at: 5500)
        }
    }

    @Test("A graceful stop, GOAWAY, the loss of a standby and a death long after explain no duplicate") func unexcusing() throws {
        for (kind, target, from) in [
            (FaultRecord.Kind.stop, "dispatcher-1", Int64(5100)), (.goAway, "simulator", 5100), (.stop, "token-service-1", 5100),
            (.kill, "dispatcher-1", 60_000), (.reset, "client>token-service", 5100), (.kill, "token-service-1", 20_000),
            (.kill, "standby", 5030), (.blackHole, "postgres>standby", 5030),
        ] {
            try expect(.duplicated) { story in
                story.fault(kind, target, from: from, to: from + 100)
                story.push(1, 1, at: from + 500)
            } unlike: {
                $0.fault(kind, target, from: from, to: from + 100)
            }
        }
    }

    @Test("The token service may publish a job twice, but only at the beginning of a delivery's life") func publishedTwice() throws {
        try expect(.duplicated) { story in
            story.fault(.kill, "token-service-1", from: 12_000, to: 12_000)
            story.push(1, 1, at: 13_000)
        } unlike: { story in
            story.fault(.kill, "token-service-1", from: 5030, to: 5030)
            story.push(1, 1, at: 13_000)
        }
    }

    @Test("After a refusal a push is sent again, and after silence; after 200 it is not") func repetitionsAreNoDuplicates() throws {
        for fate in [Push.Fate.refused(503), .unprocessed, .unanswered] {
            try expect(.duplicated) { story in
                story.push(2, 2, at: 6600, fate: fate)
                story.push(2, 2, at: 6700)
            } unlike: { story in
                story.pushList.removeAll { $0.marker == 2 }
                story.push(2, 2, at: 6050, fate: fate)
                story.push(2, 2, at: 6700)
            }
        }
    }

    @Test("A job that was put off unsent when its dispatcher died exists twice, until 5 s after the recovery") func putOff() throws {
        try expect(.duplicated) { story in
            story.fault(.kill, "dispatcher-1", from: 2000, to: 2000, recovered: 3000)
            story.send(10, to: "ada", at: 1900)
            story.push(10, 1, at: 8100)
            story.push(10, 1, at: 8120)
            story.report(10, [(1, .accepted)])
        } unlike: { story in
            story.fault(.kill, "dispatcher-1", from: 2000, to: 2000, recovered: 3000)
            story.send(10, to: "ada", at: 1900)
            story.push(10, 1, at: 7900)
            story.push(10, 1, at: 7920)
            story.report(10, [(1, .accepted)])
        }
    }

    @Test("A job that a hold put off when its dispatcher died exists twice until it is back") func putOffByHold() throws {
        func write(_ story: inout Story, heldFrom moment: Int64?) {
            if let moment {
                story.ask(.hold, at: moment) { $0.hold = Story.notification(50) }
                story.ask(.lift, at: moment + 1000) { $0.hold = Story.notification(50) }
            }
            story.fault(.kill, "dispatcher-1", from: 2000, to: 2000, recovered: 3000)
            story.send(10, to: "ada", at: 1900)
            story.push(10, 1, at: 9100)
            story.push(10, 1, at: 9300)
            story.report(10, [(1, .accepted)])
        }
        try expect(.duplicated) {
            write(&$0, heldFrom: nil)
        } unlike: {
            write(&$0, heldFrom: 1500)
        }
        try expect(.duplicated) {
            write(&$0, heldFrom: 5000)
        } unlike: {
            write(&$0, heldFrom: 1500)
        }
    }

    @Test("A kill explains no more duplicates than were in flight") func killBound() throws {
        func write(_ story: inout Story, _ number: Int64) {
            story.fault(.kill, "dispatcher-1", from: 8000, to: 8000, recovered: 9000)
            for marker in 10..<10 + number {
                story.send(marker, to: "ada", at: 7000)
                story.push(marker, 1, at: 7900)
                story.push(marker, 1, at: 8500)
                story.report(marker, [(1, .accepted)])
            }
        }
        try expect(.overBound, count: 2) {
            write(&$0, 5)
        } unlike: {
            write(&$0, 3)
        }
        try expect(.overBound) {
            write(&$0, 7); $0.fault(.kill, "dispatcher-2", from: 8100, to: 8100, recovered: 9000)
        } unlike: {
            write(&$0, 6)
            $0.fault(.kill, "dispatcher-2", from: 8100, to: 8100, recovered: 9000)
        }
    }

    @Test("One key is one notification; without a key each answer may be one") func idempotency() throws {
        func write(_ story: inout Story, key: String?, second: PushID?) {
            for (number, id) in [Story.notification(3), second].enumerated() {
                story.send(3, to: "ada", at: 7000 + Int64(number) * 100, status: id == nil ? nil : 202) { record in
                    record.key = key
                    record.notification = id
                }
            }
            story.push(3, 1, at: 7150)
            story.report(3, [(1, .accepted)])
        }
        try expect(.idempotency) {
            write(&$0, key: "k", second: Story.notification(77))
        } unlike: {
            write(&$0, key: "k", second: Story.notification(3))
        }
        func second(_ story: inout Story) {
            story.pushList.append(
                Push(
                    time: Story.moment(7400), token: Story.token(1), id: PushID(high: 9, low: 9), topic: "com.example.shop", marker: 3,
                    fate: .accepted))
        }
        var story = Story.ordinary
        write(&story, key: "k", second: nil)
        second(&story)
        #expect(try story.judge().counts == [.idempotency: 1])
        var twin = Story.ordinary
        write(&twin, key: nil, second: nil)
        second(&twin)
        #expect(try twin.judge().isKept)
    }
}
