import PushModel

/// Gathers outcomes of many jobs, so that one message carries up to ``OutcomeEvent/maximumDeliveries`` of one app, class and finality.
///
/// It is emptied when nothing else waits, or when one event's worth has come together: a lone outcome leaves at once, and messages grow
/// under load.
struct OutcomeGatherer {
    /// What one event carries, and the jobs that must not be acknowledged before it is confirmed: one entry for each confirmation that a job owes.
    struct Gathered {
        let app: AppSlug
        let outcome: OutcomeClass
        let isFinal: Bool
        var deliveries: [OutcomeEvent.Delivery] = []
        var jobs: [UInt64] = []

        fileprivate var order: (String, String, Int) { (app.text, outcome.rawValue, isFinal ? 1 : 0) }

        /// A job's deliveries come one after another, so its number is the last one if it is there; a job that comes again later owes
        /// twice and pays twice.
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

    private var open: [Kind: Gathered] = [:]
    private var full: [Gathered] = []
    /// Deliveries gathered and not yet taken.
    private(set) var count = 0

    var isFull: Bool { count >= OutcomeEvent.maximumDeliveries }

    /// - Returns: whether the job had no part in that event before, and so owes one more confirmation.
    mutating func add(
        _ delivery: OutcomeEvent.Delivery, app: AppSlug, outcome: OutcomeClass, isFinal: Bool, job: UInt64
    ) -> Bool {
        count += 1
        let kind = Kind(app: app, outcome: outcome, isFinal: isFinal)
        if let gathered = open[kind], gathered.deliveries.count == OutcomeEvent.maximumDeliveries {
            full.append(gathered)
            open[kind] = nil
        }
        return open[kind, default: Gathered(app: app, outcome: outcome, isFinal: isFinal)].append(delivery, of: job)
    }

    mutating func takeAll() -> [Gathered] {
        defer {
            open.removeAll(keepingCapacity: true)
            full.removeAll(keepingCapacity: true)
            count = 0
        }
        let rest = open.values.filter { !$0.deliveries.isEmpty }
        // In an order that does not depend on hashing: what happened once can be made to happen again.
        return full + (rest.count < 2 ? rest : rest.sorted { $0.order < $1.order })
    }
}
