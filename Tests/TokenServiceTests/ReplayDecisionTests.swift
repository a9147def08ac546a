import PushModel
import Testing

@testable import TokenServiceOutcomes

@Suite("What a replay decides about one delivery")
struct ReplayDecisionTests {
    private static let now: Int64 = 1_800_000_000_000
    private static let other = PushID(high: 7, low: 7)

    /// A delivery that failed after ten attempts. Its owner is still there, its token is live, and its notification lives for a minute.
    private static let failed = ReplayFacts(
        delivery: DeadDelivery(
            id: PushID(high: 1, low: 1), notification: PushID(high: 2, low: 2), installation: PushID(high: 3, low: 3), ownerEpoch: 3,
            isOrphan: false, attempts: 10, expiresAt: now + 60_000),
        now: now, token: 5, hasEnded: true, outcome: .failed, attempts: 10, expiresAt: now + 60_000, ownerEpoch: 3, liveToken: 5)

    /// The broker gave it up at its first attempt: it has no outcome and no receipt.
    private static let orphan: ReplayFacts = {
        var facts = failed
        (facts.hasEnded, facts.outcome, facts.attempts) = (false, nil, 0)
        (facts.delivery.isOrphan, facts.delivery.attempts) = (true, 0)
        return facts
    }()

    /// A replay reopened it and was broken off.
    private static let open: ReplayFacts = {
        var facts = failed
        (facts.outcome, facts.isReplayed, facts.isOpen) = (nil, true, true)
        return facts
    }()

    struct Case: Sendable, CustomTestStringConvertible {
        let testDescription: String
        let facts: ReplayFacts
        let extending: Int64?
        let disposition: DeadLetterReplay.Disposition
        let target: ReplayDecision.Target?
        let attempts: Int
        /// From now, in milliseconds.
        let end: Int64?
        /// Class, attempt and reason.
        let stop: String?

        init(
            _ name: String, _ facts: ReplayFacts, _ disposition: DeadLetterReplay.Disposition, to target: ReplayDecision.Target? = nil,
            attempts: Int = 0, end: Int64? = nil, stop: String? = nil, extending: Int64? = nil,
            where change: (inout ReplayFacts) -> Void = { _ in }
        ) {
            var facts = facts
            change(&facts)
            testDescription = name
            self.facts = facts
            self.extending = extending
            self.disposition = disposition
            self.target = target
            self.attempts = attempts
            self.end = end
            self.stop = stop
        }
    }

    private static let sent: [Case] = [
        Case("it failed", failed, .sent, to: .itself, attempts: 10),
        Case("no answer came", failed, .sent, to: .itself, attempts: 10) { $0.outcome = .unknown },
        Case("it expired, and the last attempt's number is taken", failed, .sent, to: .itself, attempts: 11) { $0.outcome = .expired },
        Case("an orphan without a receipt", orphan, .sent, to: .itself, attempts: 1),
        Case("an orphan whose letter knows more", orphan, .sent, to: .itself, attempts: 4) {
            ($0.attempts, $0.delivery.attempts) = (1, 3)
        },
        Case("an orphan whose receipt knows more", orphan, .sent, to: .itself, attempts: 4) {
            ($0.attempts, $0.delivery.attempts) = (3, 1)
        },
        Case("a replay was broken off", open, .sent, to: .itself, attempts: 10),
        Case("a replay was broken off, of an orphan", open, .sent, to: .itself, attempts: 10) { $0.delivery.isOrphan = true },
        Case("an orphan of its second life", open, .sent, to: .itself, attempts: 12) {
            ($0.isOpen, $0.attempts, $0.delivery.isOrphan) = (false, 11, true)
        },
    ]

    private static let toOthers: [Case] = [
        Case("another token", failed, .sent, to: .new) { $0.liveToken = 6 },
        Case("another token, of an orphan", orphan, .sent, to: .new, stop: "fenced 1 token_retired") { $0.liveToken = 6 },
        Case("another token, of a reopened one", open, .sent, to: .new, stop: "fenced 11 token_retired") { $0.liveToken = 6 },
        Case("another token, of a replay that was broken off", failed, .sent, to: .opened(other), attempts: 2) {
            $0.liveToken = 6
            $0.other = ReplayFacts.Receipt(delivery: other, attempts: 2, isOpen: true)
        },
        Case("another token that had it", failed, .hasOutcome) {
            $0.liveToken = 6
            $0.other = ReplayFacts.Receipt(delivery: other, attempts: 1, isOpen: false)
        },
        Case("another token that had it, of an orphan", orphan, .hasOutcome, stop: "fenced 1 token_retired") {
            $0.liveToken = 6
            $0.other = ReplayFacts.Receipt(delivery: other, attempts: 1, isOpen: false)
        },
        Case("no token", failed, .tokenGone) { $0.liveToken = nil },
        Case("no token, of an orphan", orphan, .tokenGone, stop: "fenced 1 token_retired") { $0.liveToken = nil },
        Case("another owner", failed, .fenced) { $0.ownerEpoch = 4 },
        Case("another owner, of an orphan", orphan, .fenced, stop: "fenced 1 -") { $0.ownerEpoch = 4 },
        Case("another owner, of a reopened one", open, .fenced, stop: "fenced 11 -") { $0.ownerEpoch = 4 },
        Case("another owner, of one that may have arrived", orphan, .fenced, stop: "unknown 2 fenced") {
            ($0.ownerEpoch, $0.delivery.attempts, $0.delivery.earlier) = (4, 1, .unknown)
        },
        Case("deregistered", orphan, .fenced, stop: "fenced 1 -") { ($0.ownerEpoch, $0.liveToken) = (nil, nil) },
    ]

    private static let settled: [Case] = [
        Case("its outcome is on its way", failed, .undecided) { ($0.hasEnded, $0.outcome, $0.attempts) = (false, nil, 9) },
        Case("its second life is under way", open, .undecided) { $0.isOpen = false },
        Case("accepted without a receipt", failed, .hasOutcome) { ($0.outcome, $0.attempts) = (nil, 0) },
        Case("accepted without a receipt, of an orphan", orphan, .hasOutcome) { $0.hasEnded = true },
        Case("accepted without a receipt, then cancelled", orphan, .hasOutcome) { ($0.hasEnded, $0.isCancelled) = (true, true) },
        Case("cancelled", failed, .cancelled) { $0.isCancelled = true },
        Case("cancelled, and its outcome is on its way", failed, .cancelled) {
            ($0.hasEnded, $0.outcome, $0.isCancelled) = (false, nil, true)
        },
        Case("cancelled, of an orphan", orphan, .cancelled, stop: "cancelled 1 -") { $0.isCancelled = true },
        Case("cancelled, of a reopened one", open, .cancelled, stop: "cancelled 11 -") { $0.isCancelled = true },
        Case("cancelled, of one that may have arrived", orphan, .cancelled, stop: "unknown 1 cancelled") {
            ($0.isCancelled, $0.delivery.earlier) = (true, .unknown)
        },
    ]

    private static let timed: [Case] = [
        Case("past its end", failed, .expired) { $0.expiresAt = now },
        Case("past its end, of an orphan", orphan, .expired, stop: "expired 1 -") { $0.expiresAt = now },
        Case("past its end, of an orphan that APNs did not take", orphan, .expired, stop: "failed 1 expired") {
            ($0.expiresAt, $0.delivery.earlier) = (now, .failed)
        },
        Case("past its end, with more time", failed, .sent, to: .itself, attempts: 10, extending: 600) { $0.expiresAt = now },
        Case("past its end, of another owner", failed, .fenced, extending: 600) { ($0.expiresAt, $0.ownerEpoch) = (now, 4) },
        Case("past its letter's end, which is the notification's", failed, .sent, to: .itself, attempts: 10) {
            $0.delivery.expiresAt = now - 1
        },
        Case("past its own end", failed, .expired) { ($0.hasOwnEnds, $0.delivery.expiresAt) = (true, now) },
        Case("past the notification's end, before its own", failed, .expired) {
            ($0.hasOwnEnds, $0.expiresAt, $0.delivery.expiresAt) = (true, now, now + 1)
        },
        Case("before its own end", failed, .sent, to: .itself, attempts: 10, end: 5000) {
            ($0.hasOwnEnds, $0.delivery.expiresAt) = (true, now + 5000)
        },
        Case("past its own end, with more time", failed, .sent, to: .itself, attempts: 10, end: 600_000, extending: 600) {
            ($0.hasOwnEnds, $0.delivery.expiresAt) = (true, now - 5000)
        },
        Case("with less time than it has", failed, .sent, to: .itself, attempts: 10, end: 5000, extending: 1) {
            ($0.hasOwnEnds, $0.delivery.expiresAt) = (true, now + 5000)
        },
    ]

    @Test("Each case has its disposition, its target and its end", arguments: sent + toOthers + settled + timed)
    func decides(about each: Case) {
        let decision = ReplayDecision(each.facts, extending: each.extending)
        #expect(decision.disposition == each.disposition)
        #expect(decision.target == each.target)
        #expect(decision.attempts == each.attempts)
        #expect(decision.end.map { $0 - Self.now } == each.end)
        let stop = decision.stop.map { "\($0.outcome.rawValue) \($0.delivery.attempt) \($0.delivery.reason ?? "-")" }
        #expect(stop == each.stop)
        guard let delivery = decision.stop?.delivery else { return }
        #expect(delivery.id == PushID(high: 1, low: 1) && delivery.notification == PushID(high: 2, low: 2))
        #expect(delivery.installation == PushID(high: 3, low: 3) && delivery.ownerEpoch == 3)
    }

    @Test("Only failures are sent again", arguments: OutcomeClass.allCases) func outcomes(outcome: OutcomeClass) {
        var facts = Self.failed
        facts.outcome = outcome
        let decision = ReplayDecision(facts, extending: nil)
        #expect(decision.disposition == ([.failed, .unknown, .expired].contains(outcome) ? .sent : .hasOutcome))
        #expect(decision.stop == nil)
    }
}
