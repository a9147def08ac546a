import PushModel

/// Gathers outcomes of many jobs, so that one message carries up to ``OutcomeEvent/maximumDeliveries`` of one app, class and finality.
///
/// It is emptied when no other work waits, or when it has enough for one event: a lone outcome leaves at once, and messages grow under
/// load.
struct OutcomeGatherer {
    /// The content of one event, and the jobs that must not be acknowledged before it is confirmed: one entry for each confirmation that a
    /// job waits for.
    struct Gathered {
        let app: AppSlug
        let outcome: OutcomeClass
        let isFinal: Bool
        var deliveries: [OutcomeEvent.Delivery] = []
        var jobs: [UInt64] = []

        /// A job's deliveries come one after another, so its number is the last one if it is there. A job that comes again later has two
        /// entries, and gets two confirmations.
        fileprivate mutating func append(_ delivery: OutcomeEvent.Delivery, of job: UInt64) -> Bool {
            deliveries.append(delivery)
            guard jobs.last != job else { return false }
            jobs.append(job)
            return true
        }
    }

    private struct Kind: Hashable {
        let app: AppSlug
        let outcome: OutcomeClass
        let isFinal: Bool
    }

    private var open: [Gathered] = []
    /// The index of each kind in `open`. Most outcomes are of the same kind as the one before.
    private var places: [Kind: Int] = [:]
    private var last: (kind: Kind, place: Int)?
    private var full: [Gathered] = []
    /// Deliveries gathered and not yet taken.
    private(set) var count = 0

    var isFull: Bool { count >= OutcomeEvent.maximumDeliveries }

    /// - Returns: whether the job had no part in that event before, and so waits for one more confirmation.
    mutating func add(
        _ delivery: OutcomeEvent.Delivery, app: AppSlug, outcome: OutcomeClass, isFinal: Bool, job: UInt64
    ) -> Bool {
        count += 1
        let place = place(of: Kind(app: app, outcome: outcome, isFinal: isFinal))
        if open[place].deliveries.count == OutcomeEvent.maximumDeliveries {
            full.append(open[place])
            open[place] = Gathered(app: app, outcome: outcome, isFinal: isFinal)
        }
        return open[place].append(delivery, of: job)
    }

    private mutating func place(of kind: Kind) -> Int {
        if let last, last.kind == kind { return last.place }
        let place = places[kind] ?? open.count
        if place == open.count {
            open.append(Gathered(app: kind.app, outcome: kind.outcome, isFinal: kind.isFinal))
            places[kind] = place
        }
        last = (kind, place)
        return place
    }

    mutating func takeAll() -> [Gathered] {
        defer {
            open.removeAll(keepingCapacity: true)
            places.removeAll(keepingCapacity: true)
            last = nil
            full.removeAll(keepingCapacity: true)
            count = 0
        }
        // In an order that does not depend on hashing, so that a run can be reproduced.
        return full + open
    }
}
