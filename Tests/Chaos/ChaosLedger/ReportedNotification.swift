package import PushModel
import StrictJSON

/// A notification as the API reports it at the end.
package struct ReportedNotification: Sendable, Equatable {
    /// As the API spells them; `missing` if it answers 404.
    package enum State: String, Sendable, CaseIterable {
        case scheduled, accepted, expanding, sending, completed, cancelled, expired
        case noTargets = "no_targets"
        case missing

        package var isTerminal: Bool {
            switch self {
            case .completed, .cancelled, .expired, .noTargets: true
            case .scheduled, .accepted, .expanding, .sending, .missing: false
            }
        }
    }

    package var app: String
    package var id: PushID
    package var state: State
    /// true if every delivery has a receipt; otherwise only those that failed or were tried more than once.
    package var hasAllReceipts: Bool
    package var total: Int
    package var pending: Int
    /// Classes that are missing have no deliveries.
    package var counts: [ReportedCount]
    package var deliveries: [ReportedDelivery]
    /// ``deliveries`` are all that there are receipts of.
    package var isComplete: Bool

    package init(
        app: String, id: PushID, state: State, hasAllReceipts: Bool, total: Int, pending: Int, counts: [ReportedCount],
        deliveries: [ReportedDelivery], isComplete: Bool
    ) {
        self.app = app
        self.id = id
        self.state = state
        self.hasAllReceipts = hasAllReceipts
        self.total = total
        self.pending = pending
        self.counts = counts
        self.deliveries = deliveries
        self.isComplete = isComplete
    }

    package func count(of outcome: OutcomeClass) -> Int { counts.first { $0.outcome == outcome }?.count ?? 0 }

    typealias Field = ReportedRecord.Field

    func write(to object: inout JSONWriter) {
        object.field(Field.app, app)
        object.field(Field.id, id)
        object.field(Field.state, state)
        object.field(Field.receipts, hasAllReceipts ? "all" : "failures")
        object.field(Field.total, total)
        object.field(Field.pending, pending)
        object.array(Field.counts.rawValue) { list in for count in counts { count.write(to: &list) } }
        object.array(Field.deliveries.rawValue) { list in for delivery in deliveries { delivery.write(to: &list) } }
        object.field(Field.isComplete, isComplete)
    }

    init(_ found: ReportedFields, _ scanner: JSONScanner) throws(JSONError) {
        guard let state = State(rawValue: try scanner.require(found.texts[.state], Field.state)) else {
            throw scanner.error(inField: Field.state.rawValue, "not one of the known words")
        }
        self.init(
            app: try scanner.require(found.texts[.app], Field.app), id: try scanner.require(found.ids[.id], Field.id), state: state,
            hasAllReceipts: found.texts[.receipts] != "failures", total: Int(try scanner.require(found.numbers[.total], Field.total)),
            pending: Int(try scanner.require(found.numbers[.pending], Field.pending)), counts: found.counts, deliveries: found.deliveries,
            isComplete: try scanner.require(found.truths[.isComplete], Field.isComplete))
    }
}

/// The number of deliveries of a notification for each outcome.
package struct ReportedCount: Sendable, Equatable {
    package var outcome: OutcomeClass
    package var count: Int

    package init(_ outcome: OutcomeClass, _ count: Int) {
        self.outcome = outcome
        self.count = count
    }

    private enum Field: String, CaseIterable {
        case outcome = "class"
        case count
    }
    private static let fields = RecordFields<Field>()

    func write(to writer: inout JSONWriter) {
        writer.object { object in
            object.field(Field.outcome, outcome)
            object.field(Field.count, count)
        }
    }

    init(from scanner: inout JSONScanner) throws(JSONError) {
        var (outcome, count): (OutcomeClass?, Int?) = (nil, nil)
        try Self.fields.read(&scanner) { (field, scanner) throws(JSONError) in
            switch field {
            case .outcome: outcome = try scanner.choice(field, of: OutcomeClass.self)
            case .count: count = try scanner.count(field)
            }
        }
        self.init(try scanner.require(outcome, Field.outcome), try scanner.require(count, Field.count))
    }
}

/// A delivery's receipt.
package struct ReportedDelivery: Sendable, Equatable {
    /// Also the `apns-id`.
    package var id: PushID
    package var installation: PushID?
    /// nil: `pending`.
    package var outcome: OutcomeClass?
    package var attempts: Int

    package init(id: PushID, installation: PushID? = nil, outcome: OutcomeClass?, attempts: Int = 1) {
        self.id = id
        self.installation = installation
        self.outcome = outcome
        self.attempts = attempts
    }

    private enum Field: String, CaseIterable {
        case id, installation
        case outcome = "state"
        case attempts
    }
    private static let fields = RecordFields<Field>()

    func write(to writer: inout JSONWriter) {
        writer.object { object in
            object.field(Field.id, id)
            object.field(Field.installation, installation)
            object.field(Field.outcome, outcome)
            object.field(Field.attempts, attempts)
        }
    }

    init(from scanner: inout JSONScanner) throws(JSONError) {
        var (id, installation, outcome, attempts): (PushID?, PushID?, OutcomeClass?, Int) = (nil, nil, nil, 0)
        try Self.fields.read(&scanner) { (field, scanner) throws(JSONError) in
            switch field {
            case .id: id = try scanner.pushID(field)
            case .installation: installation = try scanner.pushID(field)
            case .outcome: outcome = try scanner.choice(field, of: OutcomeClass.self)
            case .attempts: attempts = try scanner.count(field)
            }
        }
        self.init(id: try scanner.require(id, Field.id), installation: installation, outcome: outcome, attempts: attempts)
    }
}
