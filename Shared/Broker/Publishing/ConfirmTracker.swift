import PushModel

/// Published messages without an answer of the broker. Pure bookkeeping: publishes are numbered from 1 without gaps, answers come in any
/// order, singly or for everything up to a number, and each publish is answered once (RabbitMQ: Consumer Acknowledgements and Publisher
/// Confirms).
struct ConfirmTracker<Entry> {
    struct Settled {
        let entry: Entry
        let outcome: PublishOutcome
    }

    private struct Slot {
        let entry: Entry
        let id: PushID
        let bytes: Int
        let since: ContinuousClock.Instant
        var wasReturned = false
    }

    /// The unanswered window: front is `firstTag`. nil: answered out of order.
    private var slots = FIFO<Slot?>()
    /// The oldest unanswered one's number, or the next one's.
    private(set) var firstTag: UInt64 = 1
    private(set) var count = 0
    private(set) var bytes = 0
    /// When the oldest unanswered one was published.
    var oldest: ContinuousClock.Instant? { slots.first?.map(\.since) }

    /// Notes a message. Call it for every publish, in order.
    mutating func published(_ entry: Entry, id: PushID, bytes: Int, at now: ContinuousClock.Instant = .now) {
        slots.append(Slot(entry: entry, id: id, bytes: bytes, since: now))
        count += 1
        self.bytes += bytes
    }

    /// basic.return names no tag: it means the oldest unanswered message with that id. The tracker then ignores its confirm, which follows.
    mutating func returned(_ id: PushID) {
        for position in 0..<slots.count {
            guard var slot = slots[position], slot.id == id, !slot.wasReturned else { continue }
            slot.wasReturned = true
            slots[position] = slot
            return
        }
    }

    /// basic.ack, or basic.nack if `isRefusal`. Tags that are unknown or already answered are passed over.
    mutating func answered(tag: UInt64, multiple: Bool, isRefusal: Bool, into settled: inout [Settled]) {
        // 0 with `multiple` means everything (AMQP 0-9-1, basic.ack).
        let last = multiple && tag == 0 ? firstTag + UInt64(slots.count) &- 1 : tag
        guard last >= firstTag, last - firstTag < UInt64(slots.count) else { return }
        let position = Int(last - firstTag)
        if multiple {
            for _ in 0...position { settle(slots.popFirst() ?? nil, isRefusal, &settled) }
            firstTag = last + 1
        } else {
            settle(slots[position], isRefusal, &settled)
            slots[position] = nil
        }
        while case .some(nil) = slots.first {
            _ = slots.popFirst()
            firstTag += 1
        }
    }

    private mutating func settle(_ slot: Slot?, _ isRefusal: Bool, _ settled: inout [Settled]) {
        guard let slot else { return }
        count -= 1
        bytes -= slot.bytes
        let outcome: PublishOutcome = isRefusal ? .failed(.nacked) : slot.wasReturned ? .failed(.unroutable) : .confirmed
        settled.append(Settled(entry: slot.entry, outcome: outcome))
    }

    /// The entries in the order in which they were published, and when.
    var unanswered: some Sequence<(entry: Entry, since: ContinuousClock.Instant)> {
        (0..<slots.count).lazy.compactMap { slots[$0].map { ($0.entry, $0.since) } }
    }
    /// Messages from the oldest unanswered one on.
    var span: Int { slots.count }
}
