package import PushModel

/// The content of outcome events, sorted for the database: one entry per delivery, in ascending order of id.
package struct OutcomeBatch: Equatable, Sendable {
    /// The end of a delivery.
    package private(set) var final: [Entry] = []
    /// An attempt that is not the end: another event follows.
    package private(set) var attempts: [Entry] = []
    /// Installations that APNs asks us to leave alone for a while: UNIX milliseconds by installation's delivery.
    package private(set) var throttled: [Entry] = []
    /// Further ends, of a later try than the one in `final`: the delivery may have been reopened between the two.
    private var overtaking: [Entry] = []
    /// Ends as they were reported, including a delivery's second one.
    package private(set) var reportedFinal = 0

    package struct Entry: Equatable, Sendable {
        package var outcome: OutcomeClass
        package var delivery: OutcomeEvent.Delivery
        /// When the event was made, UNIX milliseconds.
        package var time: Int64

        /// A 410's moment: Apple's word, and without it the moment that the request left (`docs/apns.md`, Answers). An answer cannot know
        /// of a later registration, by any clock. Nil if neither is known: then no token may be retired.
        package var goneSince: Int64? {
            #if PUSH_DELIBERATE_FAULTS
                // The end of year 9999.
                if DeliberateFault.chosen == .goneWithoutTimestamp { return 253_402_300_799_999 }
            #endif
            guard let timestamp = delivery.timestamp else { return delivery.sentAt }
            return min(timestamp, delivery.sentAt ?? time)
        }

        /// Accepted in another environment than the token was registered for.
        package var isCorrection: Bool { outcome == .accepted && delivery.environment != nil }
    }

    package init(_ events: [OutcomeEvent]) {
        var ends: [Entry] = []
        var attempts: [PushID: Entry] = [:]
        ends.reserveCapacity(events.reduce(0) { $0 + ($1.isFinal ? $1.deliveries.count : 0) })
        for event in events {
            for delivery in event.deliveries {
                let entry = Entry(outcome: event.outcome, delivery: delivery, time: event.time)
                if event.isFinal {
                    ends.append(entry)
                } else if (attempts[delivery.id]?.delivery.attempt ?? 0) <= delivery.attempt {
                    attempts[delivery.id] = entry
                }
                if event.outcome == .throttled, delivery.retryAt != nil { throttled.append(entry) }
            }
        }
        reportedFinal = ends.count
        sort(ends)
        self.attempts = attempts.values.sorted { $0.delivery.id < $1.delivery.id }
        throttled.sort { $0.delivery.id < $1.delivery.id }
    }

    /// Sorts ends by id; the first end of a delivery that was reported more than once counts.
    private mutating func sort(_ ends: [Entry]) {
        // Sorts the ids alone, because an entry is large.
        let order = ends.indices.map { (id: ends[$0].delivery.id, place: $0) }.sorted { ($0.id, $0.place) < ($1.id, $1.place) }
        self.final.reserveCapacity(ends.count)
        for (id, place) in order {
            let last = self.final.count - 1
            if last < 0 || self.final[last].delivery.id != id {
                self.final.append(ends[place])
            } else if ends[place].delivery.attempt > self.final[last].delivery.attempt {
                overtaking.append(ends[place])
            }
        }
    }

    /// The batch to apply after this one; nil as a rule.
    package var next: OutcomeBatch? {
        guard !overtaking.isEmpty else { return nil }
        var next = OutcomeBatch([])
        for entry in overtaking {
            if next.final.contains(where: { $0.delivery.id == entry.delivery.id }) {
                next.overtaking.append(entry)
            } else {
                next.final.append(entry)
            }
        }
        next.final.sort { $0.delivery.id < $1.delivery.id }
        return next
    }

    package var isEmpty: Bool { final.isEmpty && attempts.isEmpty }
}
