import ChaosChecking
import ChaosLedger
import PushModel
import Testing

@Suite("The loss of a machine ends no sending for long", .timeLimit(.minutes(5)))
struct ClusterJudgementTests {
    /// Three notifications are accepted at 10 s and sent at `pushed`; clients go on to ask until a minute. A later one may be sent first.
    private func story(pushed: Int64, _ fill: (inout ClientRecord) -> Void = { _ in }) -> Story {
        var story = Story.ordinary
        story.record.resumeWithin = 10_000_000
        for marker in 3...5 as ClosedRange<Int64> {
            story.send(marker, to: "ada", at: 9_990, fill)
            story.push(marker, 1, at: pushed + marker)
            story.report(marker, [(1, .accepted)])
        }
        for (marker, moment) in [(6, pushed - 60), (7, 60_000)] as [(Int64, Int64)] {
            story.send(marker, to: "bob", at: moment)
            story.push(marker, 2, at: moment + 60)
            story.report(marker, [(2, .accepted)])
        }
        return story
    }

    @Test("Ten seconds without a push are allowed while something waits, more are not") func standstill() throws {
        #expect(try story(pushed: 20_000).judge().isKept)
        let verdict = try story(pushed: 20_002).judge()
        #expect(verdict.counts == [.standstill: 1])
        #expect(verdict.figures.longestStandstill == 10_002_000)
        var single = story(pushed: 40_000)
        single.pushList.removeAll { $0.marker == 4 || $0.marker == 5 }
        single.reportedList.removeAll()
        #expect(try single.judge().counts[.standstill] == nil)
        var unjudged = story(pushed: 40_000)
        unjudged.record.resumeWithin = nil
        #expect(try unjudged.judge().counts == [:])
    }

    @Test("Sending that goes on is no standstill, however long one notification waits") func others() throws {
        var story = story(pushed: 40_000)
        for (marker, moment) in [(10, 15_000), (11, 24_000), (12, 33_000)] as [(Int64, Int64)] {
            story.send(marker, to: "bob", at: moment)
            story.push(marker, 2, at: moment + 50)
            story.report(marker, [(2, .accepted)])
        }
        #expect(try story.judge().isKept)
    }

    @Test("A notification that is meant to wait is no standstill: scheduled, held, or left when clients have ended")
    func meantToWait() throws {
        #expect(try story(pushed: 40_000) { $0.notBefore = Story.moment(35_000) }.judge().isKept)
        var ended = story(pushed: 40_000)
        ended.clientList.removeLast(2)
        ended.pushList.removeLast(2)
        ended.reportedList.removeLast(2)
        #expect(try ended.judge().isKept)
    }

    @Test("A hold excuses notifications that it may have kept waiting, and nothing before it was set") func holds() throws {
        for (moment, isFine) in [(8_000, true), (45_000, false)] as [(Int64, Bool)] {
            var story = story(pushed: 40_000)
            story.ask(.hold, at: moment) { $0.hold = Story.notification(50) }
            story.ask(.lift, at: moment + 4_000) { $0.hold = Story.notification(50) }
            #expect(try story.judge().counts[.standstill] == (isFine ? nil : 1))
        }
    }

    @Test("The checker expects no push while RabbitMQ refuses every publisher, and expects one afterwards") func alarm() throws {
        for (pushed, isFine) in [(39_000, true), (41_000, false)] as [(Int64, Bool)] {
            var story = story(pushed: pushed)
            story.fault(.disk, "rabbitmq-3", from: 9_000, to: 25_000, recovered: 30_000)
            #expect(try story.judge().counts == (isFine ? [:] : [.standstill: 1]))
        }
    }

    @Test("The report names the longest time without a 202") func withoutAcceptance() throws {
        // From notification 6 to notification 7.
        #expect(try story(pushed: 12_000).judge().figures.longestWithoutAcceptance == 48_060_000)
    }

    @Test(
        "A cut between servers excuses the effects of a lost server",
        arguments: [("rabbitmq>rabbitmq", true), ("dispatcher>rabbitmq", true), ("postgres>standby", false)])
    func separation(link: String, explains: Bool) throws {
        var story = Story.ordinary
        story.push(1, 1, at: 20_000)
        story.fault(.blackHole, link, from: 11_000, to: 19_000)
        // The other standby confirms commits.
        #expect(try story.judge().counts[.duplicated] == (explains ? nil : 1))
    }

    @Test("A machine that was cut off explains duplicates", arguments: ["rabbitmq-2", "dispatcher-1"]) func cut(target: String) throws {
        var story = Story.ordinary
        story.push(1, 1, at: 20_000)
        story.fault(.cut, target, from: 5_000, to: 19_000)
        #expect(try story.judge().counts == [:])
    }
}
