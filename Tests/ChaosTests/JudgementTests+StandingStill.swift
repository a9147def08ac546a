import ChaosChecking
import ChaosLedger
import PushModel
import Testing

@Suite("What stands still inside RabbitMQ holds up only what needs it", .timeLimit(.minutes(5)))
struct StandingStillJudgementTests {
    static let queueOfALane = Fault(kind: .queueStandsStill, target: "push.jobs.bulk", lane: .bulk)
    static let otherQueue = Fault(kind: .queueStandsStill, target: "push.dead", lane: nil)
    static let replica = Fault(kind: .replicaStandsStill, target: "rabbitmq-2", lane: nil)

    struct Fault: Sendable, CustomTestStringConvertible {
        let kind: FaultRecord.Kind
        let target: String
        let lane: Lane?
        var testDescription: String { target }
    }

    /// Something stands still from 10 s to 35 s. Bob gets a notification every second. Ada is sent some at 14 s, which come at `pushed`.
    private func story(_ fault: Fault, lane: Lane, pushed: Int64, count: Int64 = 3) -> Story {
        var story = Story.ordinary
        story.record.resumeWithin = 10_000_000
        story.fault(fault.kind, fault.target, lane: fault.lane, from: 10_000, to: 35_000, recovered: 38_000)
        for second in 9...60 as ClosedRange<Int64> {
            story.send(100 + second, to: "bob", at: second * 1000) { $0.lane = .now }
            story.push(100 + second, 2, at: second * 1000 + 60)
            story.report(100 + second, [(2, .accepted)])
        }
        for marker in 11..<(11 + count) {
            story.send(marker, to: "ada", at: 13_990) { $0.lane = lane }
            story.push(marker, 1, at: pushed)
            story.report(marker, [(1, .accepted)])
        }
        return story
    }

    @Test("What does not need the queue or the replica waits ten seconds at most", arguments: [queueOfALane, otherQueue, replica])
    func others(fault: Fault) throws {
        let kept = try story(fault, lane: .soon, pushed: 24_000).judge()
        #expect(kept.isKept && kept.figures.longestDelay == 10_000_000)
        #expect(try story(fault, lane: .soon, pushed: 24_001).judge().counts == [.standstill: 1])
        #expect(try story(fault, lane: .soon, pushed: 40_000).judge().counts == [.standstill: 1])
    }

    @Test("A lane whose queue stands still waits for it, and ten seconds longer at most") func ownLane() throws {
        #expect(try story(Self.queueOfALane, lane: .bulk, pushed: 45_000).judge().isKept)
        #expect(try story(Self.queueOfALane, lane: .bulk, pushed: 45_001).judge().counts == [.standstill: 1])
        // No lane needs the dead letters.
        #expect(try story(Self.otherQueue, lane: .bulk, pushed: 45_000).judge().counts == [.standstill: 1])
    }

    @Test("The checker gives no blame in doubt: few notifications, an unknown lane, a throttled device, a later fault") func doubts() throws
    {
        #expect(try story(Self.otherQueue, lane: .now, pushed: 40_000, count: 2).judge().isKept)
        var unknown = story(Self.queueOfALane, lane: .now, pushed: 40_000)
        for index in unknown.clientList.indices where unknown.clientList[index].user == "ada" { unknown.clientList[index].lane = nil }
        #expect(try unknown.judge().isKept)
        var throttled = story(Self.otherQueue, lane: .now, pushed: 40_000)
        throttled.send(90, to: "ada", at: 12_000)
        throttled.push(90, 1, at: 12_050, fate: .refused(429))
        throttled.push(90, 1, at: 41_000)
        throttled.report(90, [(1, .accepted)])
        #expect(try throttled.judge().isKept)
        var later = story(Self.otherQueue, lane: .now, pushed: 40_000)
        later.fault(.kill, "rabbitmq-1", from: 20_000, to: 41_000)
        #expect(try later.judge().isKept)
        var unjudged = story(Self.otherQueue, lane: .now, pushed: 40_000)
        unjudged.record.resumeWithin = nil
        #expect(try unjudged.judge().isKept)
    }

    @Test("A fault of a whole node is judged by the time without a push alone") func wholeNode() throws {
        #expect(try story(Fault(kind: .freeze, target: "rabbitmq-2", lane: nil), lane: .now, pushed: 40_000).judge().isKept)
    }

    @Test(
        "A queue that stands still explains a second copy of what was published to it twice, and a replica none",
        arguments: [
            (queueOfALane, false, true), (queueOfALane, true, true), (otherQueue, false, false), (otherQueue, true, true),
            (replica, false, false), (replica, true, false),
        ])
    func copies(fault: Fault, isRetried: Bool, explains: Bool) throws {
        var story = Story.ordinary
        story.fault(fault.kind, fault.target, lane: fault.lane, from: 10_000, to: 35_000)
        story.send(3, to: "ada", at: 12_000)
        if isRetried { story.push(3, 1, at: 12_050, fate: .refused(429)) }
        story.push(3, 1, at: isRetried ? 17_100 : 12_050)
        story.push(3, 1, at: 30_000)
        story.report(3, [(1, .accepted)])
        #expect(try story.judge().counts == (explains ? [:] : [.duplicated: 1]))
    }

    @Test("A job that waited in a delayed queue before its first attempt may come twice") func putOff() throws {
        for (pushed, explains) in [(13_000, false), (13_100, true)] as [(Int64, Bool)] {
            var story = Story.ordinary
            story.fault(.queueStandsStill, "push.retry.now.5s", from: 10_000, to: 35_000)
            story.send(3, to: "ada", at: 12_050)
            story.push(3, 1, at: pushed)
            story.push(3, 1, at: pushed + 5_000)
            story.report(3, [(1, .accepted)])
            #expect(try story.judge().counts[.duplicated] == (explains ? nil : 1))
        }
    }

    @Test("Neither excuses a push after a logout, also without a word about the fence", arguments: [queueOfALane, otherQueue, replica])
    func afterLogout(fault: Fault) throws {
        for (pushed, isLate) in [(16_000, false), (16_020, true)] as [(Int64, Bool)] {
            for fence in [.effective, nil] as [ClientRecord.Fence?] {
                var story = Story.ordinary
                story.fault(fault.kind, fault.target, lane: fault.lane, from: 10_000, to: 35_000)
                story.send(3, to: "ada", at: 14_000)
                story.logout(1, at: 15_000, fence: fence)
                story.push(3, 1, at: pushed)
                story.report(3, [(1, .accepted)])
                #expect(try story.judge().counts == (isLate ? [.afterLogout: 1] : [:]))
            }
        }
    }

    @Test("Nothing is lost with a queue that stood still") func lost() throws {
        var story = story(Self.otherQueue, lane: .now, pushed: 14_100)
        story.send(50, to: "ada", at: 14_000) { $0.lane = .now }
        #expect(try story.judge().counts == [.lost: 1])
    }

    @Test("The checker knows the lane of a notification from its answer, so it judges a hold of the lane") func laneOfAHold() throws {
        for (lane, count) in [(.bulk, 1), (.now, nil), (nil, nil)] as [(Lane?, Int?)] {
            var story = Story.ordinary
            story.ask(.hold, at: 12_000) { ($0.lane, $0.hold, $0.fence) = (.bulk, Story.notification(60), .effective) }
            story.send(3, to: "ada", at: 12_500, status: nil) { $0.notification = nil }
            story.send(3, to: "ada", at: 13_000) { $0.lane = lane }
            story.push(3, 1, at: 14_000)
            story.report(3, [(1, .accepted)])
            story.ask(.lift, at: 20_000) { $0.hold = Story.notification(60) }
            #expect(try story.judge().counts[.afterHold] == count)
        }
    }
}
