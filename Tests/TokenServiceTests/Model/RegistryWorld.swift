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
    let client: APITestClient
    let app: AppSlug
    let appID: Int64
    let number: Int
    private var generator: OperationGenerator
    /// More than one where the past allows it: what no API shows may differ.
    private var explanations: Set<RegistryModel>
    private var open: [OpenDelivery] = []
    private var fencedBelow = [Int64](repeating: 0, count: RegistryModel.installationCount)
    /// How many calls were answered 503 and repeated.
    let repeated: Counter
    private(set) var rounds = 0
    private(set) var operations = 0

    init(_ running: RunningService, number: Int, policy: RegistryModel.Policy, seed: UInt64, repeated: Counter) async throws {
        self.running = running
        self.number = number
        self.repeated = repeated
        let name = "world\(number)"
        client = try await running.client.makeApp(name, policy: policy.rawValue)
        app = try #require(AppSlug(name))
        appID = try await running.count("SELECT id FROM apps WHERE slug = $1", [.text(name)])
        generator = OperationGenerator(seed: seed)
        explanations = [RegistryModel(policy: policy)]
        // So many accepted deliveries that no brake ever engages: here a rejected token is a rejected token.
        try await running.execute(
            """
            INSERT INTO outcome_counts (app_id, minute, class, count)
            SELECT $1, date_trunc('minute', now()) + make_interval(mins => m), 'accepted', 1000000 FROM generate_series(0, 9) AS m
            """, [.int64(appID)])
    }

    /// Sends operations at the same time, and finds an order that explains everything; throws where there is none.
    mutating func round() async throws {
        let now = try await running.count("SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint")
        guard let before = explanations.first else { return }
        let operations = generator.round(open: &open, model: before, now: now)
        let exchanges = try await perform(operations, now: now)
        let state = try await RegistryState(self, after: now)
        try await checkInvariants(state)
        let line = Linearization(steps: exchanges.map(\.step))
        let explanations = line.ends(from: self.explanations, seen: state.model)
        guard !explanations.isEmpty else { throw Unexplained(world: app.text, round: rounds, before: before, line: line, state: state) }
        self.explanations = Set(explanations.map { $0.settled(state.moments) })
        open += exchanges.flatMap(\.open)
        rounds += 1
        self.operations += operations.count
    }

    /// Every one on a connection of its own, none before all are ready.
    private func perform(_ operations: [RegistryOperation], now: Int64) async throws -> [Exchange] {
        let start = Gate()
        return try await withThrowingTaskGroup(of: (Int, Exchange).self) { group in
            for (index, operation) in operations.enumerated() {
                let tag = "r\(rounds)o\(index)"
                group.addTask { [self] in
                    try await start.wait()
                    return (index, try await exchange(operation, tag: tag, now: now))
                }
            }
            start.open()
            var exchanges = [Exchange?](repeating: nil, count: operations.count)
            for try await (index, exchange) in group { exchanges[index] = exchange }
            return exchanges.compactMap { $0 }
        }
    }

    /// What DESIGN.md section 8 promises whatever the order was, straight from the tables.
    private mutating func checkInvariants(_ state: RegistryState) async throws {
        let violated = try await running.pool.session { [appID] session in
            try session.execute(RegistryInvariant.violated, [.int64(appID)]).map { row in try row.text(0) }
        }
        #expect(violated == [], "in world \(app.text), round \(rounds)")
        for (index, installation) in state.model.installations.enumerated() {
            guard let installation else { continue }
            #expect(installation.epoch >= fencedBelow[index], "an epoch went down in world \(app.text), round \(rounds)")
            fencedBelow[index] = installation.epoch
        }
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
