import TestSupport
import Testing

@testable import Broker

@Suite("Which acknowledgements are sent")
struct AckBatcherTests {
    @Test("One acknowledgement covers all finished deliveries at the front") func finishedFront() {
        var batcher = AckBatcher(prefetch: 1000, subscriptions: 1)
        var actions: [AckBatcher.Action] = []
        for _ in 1...10 { batcher.delivered(of: 0) }
        for tag in [3, 1, 2, 5] as [UInt64] { batcher.finish(tag) }
        let start = ContinuousClock.now
        batcher.flush(now: start, into: &actions)
        #expect(actions == [.acknowledge(tag: 3, multiple: true)])
        actions = []
        batcher.flush(now: start + AckBatcher.patience - .milliseconds(1), into: &actions)
        #expect(actions.isEmpty)
        #expect(batcher.deadline == start + AckBatcher.patience)
        batcher.flush(now: start + AckBatcher.patience, into: &actions)
        #expect(actions == [.acknowledge(tag: 5, multiple: false)])
        #expect(batcher.deadline == nil)
        #expect(batcher.outstanding == 6)
    }

    @Test("A small prefetch does not wait for an acknowledgement") func smallPrefetch() {
        var batcher = AckBatcher(prefetch: 2, subscriptions: 1)
        var actions: [AckBatcher.Action] = []
        batcher.delivered(of: 0)
        batcher.delivered(of: 0)
        batcher.finish(2)
        batcher.flush(now: .now, into: &actions)
        #expect(actions == [.acknowledge(tag: 2, multiple: false)])
    }

    @Test("The acknowledgements satisfy a model of the broker, in any order of finishing") func anyOrder() {
        let seed = UInt64.random(in: 1 ... .max)
        print("ack batcher seed \(seed)")
        for round in 0..<10_000 as Range<UInt64> {
            var random = SeededGenerator(seed: seed &+ round)
            if let complaint = check(&random) {
                Issue.record("seed \(seed &+ round): \(complaint)")
                return
            }
        }
    }

    /// The model is the broker's rule: an answer names an open delivery, and `multiple` answers all open deliveries up to it.
    private func check(_ random: inout SeededGenerator) -> String? {
        var batcher = AckBatcher(prefetch: 1 + random.next(below: 600), subscriptions: 1)
        var open: Set<UInt64> = []
        var settled: Set<UInt64> = []
        var refused: Set<UInt64> = []
        var finished: Set<UInt64> = []
        var lastTag: UInt64 = 0
        var now = ContinuousClock.now
        func obey(_ actions: [AckBatcher.Action]) -> String? {
            for action in actions {
                switch action {
                case .acknowledge(let tag, let multiple):
                    guard open.contains(tag) else { return "\(tag) answered though it is not open" }
                    let covered: Set<UInt64> = multiple ? open.filter { $0 <= tag } : [tag]
                    guard covered.isSubset(of: finished) else { return "acknowledged what is not finished" }
                    open.subtract(covered)
                    settled.formUnion(covered)
                case .refuse(let tag, _):
                    guard open.remove(tag) != nil, refused.contains(tag) else { return "\(tag) refused wrongly" }
                }
            }
            return nil
        }
        for _ in 0..<(20 + random.next(below: 150)) {
            var actions: [AckBatcher.Action] = []
            switch random.next(below: 10) {
            case 0..<4:
                lastTag += 1
                batcher.delivered(of: 0)
                open.insert(lastTag)
            case 4..<7:
                // Any tag, also settled ones and some that were never delivered.
                let tag = UInt64(random.next(below: Int(lastTag) + 3))
                let isOutstanding = open.contains(tag) && !finished.contains(tag)
                if batcher.finish(tag) != isOutstanding { return "finish(\(tag)) took it wrongly" }
                if isOutstanding { finished.insert(tag) }
            case 7:
                let tag = UInt64(random.next(below: Int(lastTag) + 3))
                if open.contains(tag), !finished.contains(tag) { refused.insert(tag) }
                batcher.refuse(tag, requeue: true, into: &actions)
            default:
                now += .milliseconds(random.next(below: 40))
                batcher.flush(now: now, into: &actions)
            }
            if let complaint = obey(actions) { return complaint }
            if batcher.outstanding != open.subtracting(finished).count { return "counts \(batcher.outstanding) as outstanding" }
        }
        var actions: [AckBatcher.Action] = []
        batcher.flush(now: now, force: true, into: &actions)
        if let complaint = obey(actions) { return complaint }
        return settled == finished ? nil : "forgot to acknowledge \(finished.subtracting(settled))"
    }
}
