import ChaosChecking
import ChaosLedger
import PushModel
import Testing

@Suite("Under overload the platform works at its capacity and refuses the rest with Retry-After", .timeLimit(.minutes(5)))
struct OverloadJudgementTests {
    /// Ten requests a second are accepted while it is saturated, from 10 to 20 s; `goodput` a second under an overload from 30 to 40 s.
    private func story(goodput: Int, shed: Int = 30, unsent: Int = 0) -> Story {
        var story = Story.ordinary
        story.record.judgesRefusals = true
        story.record.answerWithin = 5_000_000
        story.fault(.saturation, "client>token-service", from: 10_000, to: 20_000)
        story.fault(.overload, "client>token-service", from: 30_000, to: 40_000)
        var marker: Int64 = 100
        for (second, count) in (10..<20).map({ ($0, 10) }) + (30..<40).map({ ($0, goodput) }) {
            for number in 0..<count {
                let moment = Int64(second * 1000 + number)
                story.send(marker, to: "ada", at: moment)
                story.push(marker, 1, at: moment + 50)
                story.report(marker, [(1, .accepted)])
                marker += 1
            }
        }
        for second in 31...40 as ClosedRange<Int64> { story.flood(at: second * 1000 - 1, shed: shed, unsent: unsent) }
        return story
    }

    @Test("Four fifths of the capacity are enough, less is not") func goodput() throws {
        let verdict = try story(goodput: 8).judge()
        #expect(verdict.isKept, "\(verdict.examples)")
        #expect(verdict.figures.overloads == [Overload(capacity: 10, sent: 38, goodput: 8, shed: 30, unsent: 0)])
        #expect(try story(goodput: 7).judge().counts == [.goodput: 1])
    }

    @Test("A load that is no overload, or was never measured, is not judged") func noOverload() throws {
        #expect(throws: LedgerError.self) { try story(goodput: 10, shed: 10).judge() }
        #expect(throws: LedgerError.self) { try story(goodput: 9, shed: 9, unsent: 30).judge() }
        #expect(try story(goodput: 9, shed: 12, unsent: 10).judge().isKept)
        var unmeasured = story(goodput: 10)
        unmeasured.faultList.removeFirst()
        #expect(throws: LedgerError.self) { try unmeasured.judge() }
    }

    @Test("Under overload requests may be shed, with Retry-After, and nothing else") func shedding() throws {
        for (status, isFine) in [(503, true), (429, true), (502, false), (nil, false)] as [(Int?, Bool)] {
            var story = story(goodput: 9)
            story.send(9999, to: "ada", at: 35_000, took: 5, status: status)
            #expect(try story.judge().counts == (isFine ? [:] : [.refusals: 1]))
        }
        var silent = story(goodput: 9)
        silent.send(9999, to: "ada", at: 35_000, status: 503) { $0.retryAfter = nil }
        #expect(try silent.judge().counts == [.unkindRefusals: 1])
    }

    @Test("Five seconds after the overload the platform refuses no request") func backToNormal() throws {
        for (moment, isFine) in [(44_000, true), (46_000, false)] as [(Int64, Bool)] {
            var one = story(goodput: 9)
            one.send(9999, to: "ada", at: moment, status: 503)
            #expect(try one.judge().counts == (isFine ? [:] : [.refusals: 1]))
            var many = story(goodput: 9)
            many.flood(at: moment + 500, shed: 12)
            #expect(try many.judge().counts == (isFine ? [:] : [.refusals: 1]))
        }
    }

    @Test("The checker also finds a slow refusal that only its second records") func lateRefusals() throws {
        var story = story(goodput: 9)
        story.flood(at: 39_500, shed: 1, longest: 5001)
        #expect(try story.judge().counts == [.slowAnswers: 1])
    }
}
