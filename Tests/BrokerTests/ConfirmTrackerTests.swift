import PushModel
import TestSupport
import Testing

@testable import Broker

@Suite("Which publishes the broker has answered for")
struct ConfirmTrackerTests {
    @Test("The tracker agrees with a simple model for all answers in any order") func agreesWithModel() {
        let seed = UInt64.random(in: 1 ... .max)
        print("confirm tracker seed \(seed)")
        for round in 0..<10_000 as Range<UInt64> {
            var random = SeededGenerator(seed: seed &+ round)
            guard check(&random) else {
                Issue.record("seed \(seed &+ round)")
                return
            }
        }
    }

    /// The model: a dictionary of the open messages, without windows and positions.
    private func check(_ random: inout SeededGenerator) -> Bool {
        var tracker = ConfirmTracker<Int>()
        var open: [UInt64: (entry: Int, id: PushID, bytes: Int, wasReturned: Bool)] = [:]
        var lastTag: UInt64 = 0
        var lastEntry = 0
        for _ in 0..<(5 + random.next(below: 60)) {
            switch random.next(below: 12) {
            case 0..<6:
                lastTag += 1
                lastEntry += 1
                // Few ids, so that the same id is in flight twice.
                let id = PushID(high: 0, low: UInt64(random.next(below: 6)))
                let bytes = random.next(below: 100)
                tracker.published(lastEntry, id: id, bytes: bytes)
                open[lastTag] = (lastEntry, id, bytes, false)
            case 6:
                let id = PushID(high: 0, low: UInt64(random.next(below: 8)))
                tracker.returned(id)
                if let tag = open.filter({ $0.value.id == id && !$0.value.wasReturned }).keys.min() { open[tag]?.wasReturned = true }
            case 7..<11:
                // Sometimes the broker already answered the tag, or the tracker never gave it.
                let tag = UInt64(random.next(below: Int(lastTag) + 3))
                let multiple = random.next(below: 3) == 0
                let isRefusal = random.next(below: 4) == 0
                guard !(multiple && tag > lastTag) else { continue }
                var settled: [ConfirmTracker<Int>.Settled] = []
                tracker.answered(tag: tag, multiple: multiple, isRefusal: isRefusal, into: &settled)
                let covered = open.keys.filter { multiple ? (tag == 0 || $0 <= tag) : $0 == tag }.sorted()
                let expected = covered.compactMap { open.removeValue(forKey: $0) }
                guard settled.map(\.entry) == expected.map(\.entry) else { return false }
                for (left, right) in zip(settled, expected) {
                    let outcome: PublishOutcome = isRefusal ? .failed(.nacked) : right.wasReturned ? .failed(.unroutable) : .confirmed
                    guard left.outcome == outcome else { return false }
                }
            default:
                guard random.next(below: 10) == 0 else { continue }
                tracker = ConfirmTracker()
                open = [:]
                lastTag = 0
            }
            guard tracker.unanswered.map(\.entry) == open.sorted(by: { $0.key < $1.key }).map(\.value.entry) else { return false }
            guard tracker.count == open.count, tracker.bytes == open.values.reduce(0, { $0 + $1.bytes }) else { return false }
        }
        return true
    }
}
