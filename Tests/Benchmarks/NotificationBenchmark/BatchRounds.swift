import BenchmarkSupport

/// Batches of 1,000 notifications to single users, beside as many single requests: what each notification costs the token service and
/// PostgreSQL together, until it is published. Dispatchers stand still.
struct BatchRounds {
    private static let clients = 4

    private let platform: PlatformUnderTest
    private let audience: Audience
    private let batches: Int

    init(_ platform: PlatformUnderTest, _ audience: Audience, batches: Int) {
        self.platform = platform
        self.audience = audience
        self.batches = batches
    }

    private struct Sample {
        var rate: Double
        /// Microseconds for each notification.
        var batched: Double
        var single: Double
    }

    func measures(_ rounds: Int) throws -> [Measure] {
        progress("batch: notifications in batches of \(Audience.batch), beside single requests")
        let key = platform.key(of: Audience.bulkApp)
        platform.stopDispatchers()
        defer { platform.resumeDispatchers() }
        let count = batches * Audience.batch
        let posts = (0..<count).map { audience.toUser($0, key: key) }
        let bodies = (0..<batches).map { audience.toUsers($0 * Audience.batch, key: key) }
        let samples = try alternate(rounds) { () -> (Sample, String) in
            let (_, single) = try cost(of: posts, clients: AcceptRounds.clients, notifications: count)
            let (rate, batched) = try cost(of: bodies, clients: Self.clients, notifications: count)
            let text = "\(Int(rate))/s, \(Int(batched)) µs each; single \(Int(single)) µs"
            return (Sample(rate: rate, batched: batched, single: single), text)
        }
        try platform.forget()
        return [
            Measure(
                name: "batch: processor time each", value: median(samples.map(\.batched)), unit: "µs",
                baseline: "single requests", baselineValue: median(samples.map(\.single)), bar: .ratioAtMost(0.34)),
            Measure(name: "batch: notifications", value: median(samples.map(\.rate)), unit: "notifications/s"),
        ]
    }

    private func cost(of requests: [HTTPRequest], clients: Int, notifications: Int) throws -> (rate: Double, processor: Double) {
        let rows = try platform.database.integer("SELECT count(*) FROM notifications")
        let before = (try platform.service.processorTime(), try platform.database.processorTimes(of: "token-service"))
        let result = try LoadGenerator(address: platform.address, connections: clients).run(requests)
        try platform.waitUntilPublished()
        let after = (try platform.service.processorTime(), try platform.database.processorTimes(of: "token-service"))
        // A batch is answered with 202 also where an item of it was refused.
        let accepted = try platform.database.integer("SELECT count(*) FROM notifications") - rows
        guard accepted == notifications else { throw BenchmarkError("\(accepted) of \(notifications) notifications were accepted") }
        let seconds = after.0 - before.0 + after.1.reduce(0) { $0 + $1.value - (before.1[$1.key] ?? 0) }
        return (Double(notifications) / result.seconds, seconds * 1_000_000 / Double(notifications))
    }
}
