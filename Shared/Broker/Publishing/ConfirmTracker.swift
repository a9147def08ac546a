import PushModel

/// Published messages without an answer of the broker. Pure bookkeeping: publishes are numbered from 1 without gaps, answers come in any
/// order, singly or for everything up to a number, and each publish is answered once (RabbitMQ: Consumer Acknowledgements and Publisher
/// Confirms).
///
/// A message whose answer is late leaves the window (``setLateAside(since:_:)``), so that the window goes on for all others.
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
    private var firstTag: UInt64 = 1
    /// By tag. All tags are below `firstTag`.
    private var lateSlots: [UInt64: Slot] = [:]
    /// Messages and bytes in the window.
    private(set) var count = 0
    private(set) var bytes = 0
    /// When the oldest message of the window was published.
    var oldest: ContinuousClock.Instant? { slots.first?.map(\.since) }
    /// No message is unanswered.
    var isEmpty: Bool { count == 0 && lateSlots.isEmpty }
    /// In the order in which they were published.
    var late: [Entry] { lateSlots.sorted { $0.key < $1.key }.map(\.value.entry) }
    /// The lowest unanswered number, or the next one.
    var lowestTag: UInt64 { lateSlots.keys.min() ?? firstTag }

    /// To be called for every publish, in order.
    mutating func published(_ entry: Entry, id: PushID, bytes: Int, at now: ContinuousClock.Instant = .now) {
        slots.append(Slot(entry: entry, id: id, bytes: bytes, since: now))
        count += 1
        self.bytes += bytes
    }

    /// basic.return names no tag: it means the oldest unanswered message with that id. The tracker then ignores its confirm, which follows.
    mutating func returned(_ id: PushID) {
        for (tag, slot) in lateSlots.sorted(by: { $0.key < $1.key }) where slot.id == id && !slot.wasReturned {
            lateSlots[tag]?.wasReturned = true
            return
        }
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
        if !lateSlots.isEmpty {
            for tag in lateSlots.keys.filter({ multiple ? $0 <= last : $0 == last }).sorted() {
                if let slot = lateSlots.removeValue(forKey: tag) { settle(slot, isRefusal, &settled) }
            }
        }
        guard last >= firstTag, last - firstTag < UInt64(slots.count) else { return }
        let position = Int(last - firstTag)
        if multiple {
            for _ in 0...position { if let slot = popFirst() { settle(slot, isRefusal, &settled) } }
        } else if let slot = slots[position] {
            slots[position] = nil
            leave(slot)
            settle(slot, isRefusal, &settled)
        }
        while case .some(nil) = slots.first { _ = popFirst() }
    }

    /// Moves messages that were published before `moment` out of the window; their answers may still come.
    /// - Parameter body: Gets each of them.
    mutating func setLateAside(since moment: ContinuousClock.Instant, _ body: (Entry) -> Void) {
        while case .some(let slot) = slots.first, slot.map({ $0.since < moment }) ?? true {
            let tag = firstTag
            guard let slot = popFirst() else { continue }
            lateSlots[tag] = slot
            body(slot.entry)
        }
    }

    private mutating func popFirst() -> Slot? {
        firstTag += 1
        guard let slot = slots.popFirst() ?? nil else { return nil }
        leave(slot)
        return slot
    }

    private mutating func leave(_ slot: Slot) {
        count -= 1
        bytes -= slot.bytes
    }

    private func settle(_ slot: Slot, _ isRefusal: Bool, _ settled: inout [Settled]) {
        let outcome: PublishOutcome = isRefusal ? .failed(.nacked) : slot.wasReturned ? .failed(.unroutable) : .confirmed
        settled.append(Settled(entry: slot.entry, outcome: outcome))
    }

    /// The connection is gone, and the numbering with it.
    /// - Returns: the unanswered messages, in the order in which they were published.
    mutating func reset() -> [Entry] {
        var entries = late
        while let slot = slots.popFirst() {
            if let slot { entries.append(slot.entry) }
        }
        self = ConfirmTracker()
        return entries
    }
}
