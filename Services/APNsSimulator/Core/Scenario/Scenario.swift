/// A plan of faults: which requests and connections get which, and the events at each moment. Read from JSON, see the README.
///
/// It is deterministic: the same scenario with the same seed does the same to the n-th request of the m-th connection.
package struct Scenario: Sendable, Equatable {
    package var name: String
    /// What the scenario is about, for people.
    package var about: String
    package var seed: UInt64
    var requests: [RequestRule]
    var connections: [ConnectionRule]
    var events: [TimedEvent]
    /// How much later every byte leaves.
    var roundTrip = Duration.zero
    package var readings = Readings()

    package static let calm = Scenario(
        name: "calm", about: "Nothing goes wrong.", seed: 1, requests: [], connections: [], events: [])

    /// Every name that a run counts, in the order of the file.
    var ruleNames: [String] { requests.map(\.name) + connections.map(\.name) + events.map(\.name) }
}

/// The conditions for a rule to apply, beside its own. All that are given must hold.
struct Occasion: Sendable, Equatable {
    var environment: SimulatorEnvironment?
    /// Milliseconds since the scenario began; the end is not part of it.
    var from: Int64 = 0
    var until: Int64 = .max
    /// The share of requests that meet the other conditions: 0 to 1.
    var share = 1.0
    /// The n-th, the 2n-th, … only; 1 is each.
    var every: Int64 = 1
    /// These only, counted from 1; nil is any.
    var positions: Set<Int64>?

    /// - Parameter draw: Decides about the share.
    func applies(at position: Int64, in environment: SimulatorEnvironment, elapsed: Int64, draw: SeededDraw) -> Bool {
        if let wanted = self.environment, wanted != environment { return false }
        guard elapsed >= from, elapsed < until, position.isMultiple(of: every), positions?.contains(position) ?? true else { return false }
        return share >= 1 || draw.fraction < share
    }
}

/// One of several actions, by weight.
struct Choice<Element: Sendable & Equatable>: Sendable, Equatable {
    var options: [(element: Element, weight: Int64)]
    private let total: Int64

    init(_ options: [(element: Element, weight: Int64)]) {
        self.options = options
        total = options.reduce(0) { $0 + $1.weight }
    }

    func pick(_ draw: SeededDraw) -> Element? {
        guard options.count > 1, total > 0 else { return options.first?.element }
        var rest = Int64(draw.bits % UInt64(total))
        for option in options {
            rest -= option.weight
            if rest < 0 { return option.element }
        }
        return options.last?.element
    }

    static func == (left: Self, right: Self) -> Bool {
        left.options.elementsEqual(right.options) { $0.element == $1.element && $0.weight == $1.weight }
    }
}

/// Requests that meet all conditions here get one of the faults.
struct RequestRule: Sendable, Equatable {
    var name: String
    var occasion: Occasion
    /// The kinds of requests; nil is any.
    var kinds: [RequestKind]?
    /// Connections as the scenario counts them, from 1; nil is any.
    var connections: Set<Int64>?
    var topics: [[UInt8]]?
    var types: Set<ServerPushType>?
    var tokens: Set<TokenKey>?
    /// The share of all tokens, always the same ones under one seed.
    var shareOfTokens = 1.0
    var faults: Choice<Fault>

    func concerns(_ facts: PushFacts, _ kind: RequestKind, connection: Int64, seed: UInt64, rule: Int) -> Bool {
        if let kinds, !kinds.contains(kind) { return false }
        if let connections, !connections.contains(connection) { return false }
        if let topics, !topics.contains(facts.topic) { return false }
        if let types, !(facts.type.map { types.contains($0) } ?? false) { return false }
        if let tokens, !(facts.token.map { tokens.contains($0) } ?? false) { return false }
        guard shareOfTokens < 1 else { return true }
        guard let token = facts.token else { return false }
        return SeededDraw(seed, rule, .token, token.stableHash, 0).fraction < shareOfTokens
    }
}

/// Connections that meet all conditions here begin with a fault.
struct ConnectionRule: Sendable, Equatable {
    var name: String
    var occasion: Occasion
    var entrances: Choice<Entrance>
}

/// An event of live connections at a moment.
struct TimedEvent: Sendable, Equatable {
    var name: String
    /// Milliseconds since the scenario began.
    var at: Int64
    /// Milliseconds; nil is once.
    var every: Int64?
    var environment: SimulatorEnvironment?
    var effect: ConnectionEffect
}

extension Scenario {
    /// - Throws: ``SimulatorError``, which names the file and the place.
    package init(file path: String) throws(SimulatorError) {
        self = try ScenarioReader.read(file: path)
    }

    /// A scenario file's text.
    package init(text: String) throws(SimulatorError) {
        self = try ScenarioReader.parse(Array(text.utf8))
    }

    /// What people read of the scenario: how much is in it.
    package var summary: String {
        "scenario \(name), seed \(seed): \(requests.count) rules for requests, \(connections.count) for connections, \(events.count) events"
            + (roundTrip > .zero ? ", every frame \(roundTrip) late" : "") + (readings == Readings() ? "" : ", other readings of APNs")
    }
}
