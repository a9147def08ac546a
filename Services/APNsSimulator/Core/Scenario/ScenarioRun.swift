import OpenSSL
import Synchronization

/// A running scenario: its start, the number of its connections, and how often each rule has applied. Shared by all loops.
final class ScenarioRun: Sendable {
    let scenario: Scenario
    /// UNIX milliseconds.
    let startedAt: Int64
    /// The context for connections that get a certificate of an unknown authority, or no `h2`; made only if a rule needs it.
    let wrongCertificate: TLSContext?
    let withoutALPN: TLSContext?
    private let connections = Atomic<UInt64>(0)
    private let counts: Mutex<[Int64]>

    init(_ scenario: Scenario, configuration: APNsSimulatorConfiguration, now: Int64) throws(SimulatorError) {
        self.scenario = scenario
        startedAt = now
        let entrances = scenario.connections.flatMap { $0.entrances.options.map(\.element) }
        do throws(TLSError) {
            wrongCertificate =
                entrances.contains(.wrongCertificate) ? try TLSContext.server(selfSignedFor: "wrong.invalid", alpn: ["h2"]) : nil
            withoutALPN =
                entrances.contains(.noALPN)
                ? try TLSContext.server(certificateFile: configuration.certificateFile, keyFile: configuration.keyFile, alpn: []) : nil
        } catch {
            throw SimulatorError(.configuration, "\(error)")
        }
        counts = Mutex(Array(repeating: 0, count: scenario.ruleNames.count))
    }

    /// How often each rule has applied, in the order of ``Scenario/ruleNames``.
    var strikes: [(name: String, count: Int64)] {
        Array(zip(scenario.ruleNames, counts.withLock { $0 }))
    }

    func noteStrike(_ index: Int) {
        counts.withLock { $0[index] += 1 }
    }

    /// The place in the counts of an event.
    func eventIndex(_ index: Int) -> Int { scenario.requests.count + scenario.connections.count + index }

    /// Counts a connection, from 1, and returns how it begins.
    /// - Parameter isNew: false for one that was open when the scenario began: it is counted, and spared.
    func admit(_ environment: SimulatorEnvironment, now: Int64, isNew: Bool = true) -> ConnectionScenario {
        let ordinal = connections.wrappingAdd(1, ordering: .relaxed).newValue
        var place = ConnectionScenario(run: self, ordinal: ordinal)
        guard isNew else { return place }
        let elapsed = now - startedAt
        for (index, rule) in scenario.connections.enumerated() {
            let number = scenario.requests.count + index
            let draw = SeededDraw(scenario.seed, number, .share, ordinal, 0)
            guard rule.occasion.applies(at: Int64(ordinal), in: environment, elapsed: elapsed, draw: draw) else { continue }
            place.entrance = rule.entrances.pick(SeededDraw(scenario.seed, number, .choice, ordinal, 0))
            noteStrike(number)
            break
        }
        return place
    }
}

/// One connection's place in a scenario. Belongs to the connection's thread.
struct ConnectionScenario {
    /// A fault with everything drawn.
    struct Blow {
        var step: ScriptedAnswer?
        var delay: Duration = .zero
        var effect: ConnectionEffect?
    }

    let run: ScenarioRun
    let ordinal: UInt64
    /// The certificate to show instead of the right one.
    var certificateContext: TLSContext? {
        switch entrance {
        case .wrongCertificate: run.wrongCertificate
        case .noALPN: run.withoutALPN
        default: nil
        }
    }
    var entrance: Entrance?
    var roundTrip: Duration { run.scenario.roundTrip }
    private var position: UInt64 = 0

    init(run: ScenarioRun, ordinal: UInt64) {
        self.run = run
        self.ordinal = ordinal
    }

    /// The fault of the connection's next request: the first rule that applies decides. Called once per request.
    /// - Parameter isFaulty: The request has a fault of its own, which a decision about it does not replace.
    mutating func next(
        _ kind: RequestKind, _ facts: PushFacts, isFaulty: Bool, environment: SimulatorEnvironment, now: Int64
    ) -> Blow? {
        position += 1
        let scenario = run.scenario
        for index in scenario.requests.indices {
            let rule = scenario.requests[index]
            let draw = SeededDraw(scenario.seed, index, .share, ordinal, position)
            guard rule.occasion.applies(at: Int64(position), in: environment, elapsed: now - run.startedAt, draw: draw),
                rule.concerns(facts, kind, connection: Int64(ordinal), seed: scenario.seed, rule: index),
                let fault = rule.faults.pick(SeededDraw(scenario.seed, index, .choice, ordinal, position)),
                !isFaulty || !fault.isJudgement
            else { continue }
            run.noteStrike(index)
            let delay = fault.delay?.duration(SeededDraw(scenario.seed, index, .delay, ordinal, position)) ?? .zero
            return Blow(step: fault.step, delay: delay, effect: fault.effect)
        }
        return nil
    }
}

/// A pseudorandom number that depends only on where it is drawn: seed, rule, purpose, connection and position.
struct SeededDraw {
    /// Draws of one rule at one position that must not depend on each other.
    enum Purpose: UInt64 {
        case share, choice, delay, token
    }

    let bits: UInt64

    init(_ seed: UInt64, _ rule: Int, _ purpose: Purpose, _ connection: UInt64, _ position: UInt64) {
        var value = seed
        for part in [UInt64(truncatingIfNeeded: rule), purpose.rawValue, connection, position] {
            value = Self.mixed(value ^ Self.mixed(part))
        }
        bits = value
    }

    /// A number from 0 up to, not including, 1.
    var fraction: Double { Double(bits >> 11) / Double(1 << 53 as UInt64) }

    /// The finaliser of SplitMix64.
    private static func mixed(_ value: UInt64) -> UInt64 {
        var mixed = value &+ 0x9e37_79b9_7f4a_7c15
        mixed = (mixed ^ (mixed >> 30)) &* 0xbf58_476d_1ce4_e5b9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94d0_49bb_1331_11eb
        return mixed ^ (mixed >> 31)
    }
}

extension TokenKey {
    /// A hash that is the same in every run (FNV-1a), unlike `hashValue`.
    var stableHash: UInt64 {
        bytes.reduce(0xcbf2_9ce4_8422_2325) { ($0 ^ UInt64($1)) &* 0x100_0000_01b3 }
    }
}
