import Postgres
import PushModel
import StrictJSON
import Synchronization
import TestSupport
import Testing
import TokenService

/// One app of a running service, and what may be true of it: every model that explains all answers and states so far.
struct RegistryWorld {
    let running: RunningService
    let sent: SentJobs
    let client: APITestClient
    let app: AppSlug
    let appID: Int64
    let number: Int
    private var generator: OperationGenerator
    /// More than one where the past allows it: what no API shows may differ.
    private var explanations: Set<RegistryModel>
    private var open: [OpenDelivery] = []
    /// Which tokens APNs is said to have given up, by the reason that they are retired for.
    private var reported: [String: Set<TokenName>] = [:]
    private var fencedBelow = [Int64](repeating: 0, count: RegistryModel.installationCount)
    /// How many calls were answered 503 and repeated.
    let repeated: Counter
    private(set) var rounds = 0
    private(set) var operations = 0
    /// Tokens that left quarantine by request, and installations that were erased.
    private(set) var (released, emptied) = (0, 0)

    init(
        _ running: RunningService, sent: SentJobs, number: Int, policy: RegistryModel.Policy, seed: UInt64, repeated: Counter
    ) async throws {
        self.running = running
        self.sent = sent
        self.number = number
        self.repeated = repeated
        let name = "world\(number)"
        client = try await running.client.makeApp(name, policy: policy.rawValue)
        app = try #require(AppSlug(name))
        appID = try await running.number("id", "SELECT id FROM apps WHERE slug = \(name)")
        generator = OperationGenerator(seed: seed)
        explanations = [RegistryModel(policy: policy)]
    }

    /// Sends operations at the same time, and finds an order that explains everything; throws where there is none.
    mutating func round() async throws {
        let brake = generator.brake()
        if brake.doubts { try await doubt() }
        guard let model = explanations.first else { return }
        try await play(braked: brake.isEngaged) { [generator, open] now in
            var (generator, open) = (generator, open)
            let operations = generator.round(open: &open, model: model, now: now)
            return (operations, generator, open)
        }
        rounds += 1
    }

    /// One operation after another: a token is rejected, and under the brake a second one, so that the first is in quarantine.
    private mutating func doubt() async throws {
        guard let model = explanations.first, let user = model.installations.indices.compactMap({ model.owner(of: $0) }).first else {
            return
        }
        let deliveries = try await [send(.send(user: user), to: user), send(.send(user: user), to: user)].compactMap { $0.1.first }
        guard deliveries.count == 2 else { return }
        for (delivery, isBraked) in zip(deliveries, [false, true]) {
            let outcome = RegistryOperation.Outcome(
                delivery: delivery, outcome: .tokenRejected, since: .future, isStamped: false, isContradicted: false)
            try await play(braked: isBraked) { [generator, open] _ in ([.outcome(outcome)], generator, open) }
        }
    }

    private mutating func play(
        braked isBraked: Bool, _ draw: (Int64) -> ([RegistryOperation], OperationGenerator, [OpenDelivery])
    ) async throws {
        try await set(braked: isBraked)
        explanations = Set(explanations.map { $0.braked(isBraked) })
        guard let before = explanations.first else { return }
        let now = try await running.number("now", "SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now")
        let operations: [RegistryOperation]
        (operations, generator, open) = draw(now)
        let history = try await historyLines()
        let steps = try await perform(operations, now: now, history: history)
        let state = try await RegistryState(self, after: now, before: before)
        try await checkInvariants(state, after: operations, history: history)
        let line = Linearization(steps: steps)
        let explanations = line.ends(from: self.explanations, seen: state.model)
        guard !explanations.isEmpty else { throw Unexplained(world: app.text, round: rounds, before: before, line: line, state: state) }
        let erased = Self.erased(by: operations)
        self.explanations = Set(explanations.flatMap { $0.settled(state, erased: erased) })
        self.operations += operations.count
        for step in steps { count(step.answer) }
    }

    /// Every one on a connection of its own, none before all are ready.
    private mutating func perform(
        _ operations: [RegistryOperation], now: Int64, history: [Int: Int64]
    ) async throws -> [Linearization.Step] {
        let start = Gate()
        let exchanges = try await withThrowingTaskGroup(of: (Int, Exchange).self) { [self] group in
            for (index, operation) in operations.enumerated() {
                let tag = "r\(rounds)o\(index)"
                group.addTask {
                    try await start.wait()
                    return (index, try await exchange(operation, tag: tag, now: now))
                }
            }
            start.open()
            var exchanges = [Exchange?](repeating: nil, count: operations.count)
            for try await (index, exchange) in group { exchanges[index] = exchange }
            return exchanges.compactMap { $0 }
        }
        open += exchanges.flatMap(\.open)
        return exchanges.map { exchange in
            var step = exchange.step
            // Six operations write no more lines than the margin has.
            if case .erase(let user) = step.operation { step.historyPages = Int((history[user] ?? 0) + 30) / 100 + 1 }
            return step
        }
    }
}

// MARK: The brake

extension RegistryWorld {
    private mutating func count(_ answer: RegistryAnswer) {
        switch answer {
        case .restored(let restored, let superseded): released += restored + superseded
        case .erased(let installations, _): emptied += installations
        default: break
        }
    }

    /// Counts of outcomes that engage or free the brake, whatever the rounds' own outcomes are. Here a rejected token is a rejected token,
    /// or none is, for a whole round.
    private func set(braked: Bool) async throws {
        let rejected = braked ? 100_000_000 : 0
        try await running.execute(
            """
            INSERT INTO outcome_counts (app_id, minute, class, count)
            SELECT \(appID), date_trunc('minute', now()) + make_interval(mins => m), class,
                CASE class WHEN 'accepted' THEN 1000000 ELSE \(rejected) END
            FROM generate_series(0, 1) AS m, unnest(ARRAY['accepted', 'token_rejected']) AS class
            ON CONFLICT (app_id, minute, class) DO UPDATE SET count = excluded.count
            """)
        try await running.execute(
            "DELETE FROM outcome_counts WHERE app_id = \(appID) AND class = 'token_rejected' AND minute < date_trunc('minute', now())")
    }
}

extension RegistryModel {
    fileprivate func braked(_ isBraked: Bool) -> RegistryModel {
        var model = self
        model.isBraked = isBraked
        return model
    }
}

// MARK: What holds whatever the order was

extension RegistryWorld {
    /// What the promises say (`docs/promises.md`), straight from the tables.
    private mutating func checkInvariants(
        _ state: RegistryState, after operations: [RegistryOperation], history: [Int: Int64]
    ) async throws {
        let violated = try await running.texts(
            "name", RegistryInvariant.violated(in: appID, open, open.map { id($0.installation) }))
        #expect(violated == [], "in world \(app.text), round \(rounds)")
        for (index, installation) in state.model.installations.enumerated() {
            guard let installation else { continue }
            #expect(installation.epoch >= fencedBelow[index], "an epoch went down in world \(app.text), round \(rounds)")
            fencedBelow[index] = installation.epoch
        }
        for case .outcome(let outcome) in operations {
            if let reason = outcome.retires { reported[reason, default: []].insert(outcome.token) }
        }
        for (index, token) in state.model.tokens.enumerated() {
            guard let reason = token?.retired, reason == "gone" || reason == "rejected" else { continue }
            #expect(
                reported[reason]?.contains(TokenName(index: index)) == true, "no outcome says so, in world \(app.text), round \(rounds)")
        }
        try await checkErasures(operations, history: history)
    }

    /// Nothing but the erased users' own is gone.
    private mutating func checkErasures(_ operations: [RegistryOperation], history: [Int: Int64]) async throws {
        let erased = Self.erased(by: operations)
        guard !erased.isEmpty else { return }
        let after = try await historyLines()
        for (user, lines) in history where !erased.contains(user) { #expect(after[user, default: 0] >= lines) }
        let notifications = Array(Set(open.map(\.notification)))
        let found = Set(
            try await running.ids(
                "SELECT id FROM deliveries WHERE notification = ANY (\(notifications)::uuid[]) AND id = ANY (\(open.map(\.id))::uuid[])"))
        #expect(open.allSatisfy { erased.contains($0.user) || found.contains($0.id) }, "another user's delivery was erased")
        open.removeAll { !found.contains($0.id) }
    }

    private static func erased(by operations: [RegistryOperation]) -> Set<Int> {
        Set(operations.compactMap { operation in if case .erase(let user) = operation { user } else { nil } })
    }

    /// How many lines of the history name each user.
    private func historyLines() async throws -> [Int: Int64] {
        let lines = try await running.pool.session { [appID] session in
            let lines = try session.execute(
                "SELECT owner, count(*) FROM installation_history WHERE app_id = \(appID) AND owner IS NOT NULL GROUP BY owner"
            )
            return try lines.map { row -> (Int?, Int64) in (RegistryState.user(try row["owner"]), try row["count"]) }
        }
        return Dictionary(lines.compactMap { user, count in user.map { ($0, count) } }, uniquingKeysWith: +)
    }
}

/// From any task.
final class Counter: Sendable {
    private let value = Mutex(0)

    var count: Int { value.withLock { $0 } }
    func increase() { value.withLock { $0 += 1 } }
}

/// Nothing one after another explains what was seen.
struct Unexplained: Error, CustomStringConvertible {
    let world: String
    let round: Int
    let before: RegistryModel
    let line: Linearization
    let state: RegistryState

    var description: String {
        let ends = line.reachable(from: [before])
        return """
            no order of these operations explains what was seen in world \(world), round \(round)
            before: \(before)
            \(line.steps.map { "\($0.tag) \($0.operation) -> \($0.answer)" }.joined(separator: "\n"))
            found:  \(state.model)
            \(ends.isEmpty ? "no order gives these answers" : ends.map { "fits:   \($0)" }.joined(separator: "\n"))
            """
    }
}
