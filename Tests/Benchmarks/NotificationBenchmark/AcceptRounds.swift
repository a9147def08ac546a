import BenchmarkSupport

/// `POST` to a single user with two devices, 64 clients, beside pgbench inserting one such row per commit with 64 clients. Dispatchers
/// stand still; jobs are published and settled as always.
struct AcceptRounds {
    static let clients = 64

    let platform: PlatformUnderTest
    let audience: Audience
    let requests: Int

    init(_ platform: PlatformUnderTest, _ audience: Audience, requests: Int) {
        self.platform = platform
        self.audience = audience
        self.requests = requests
    }

    struct Sample {
        var ours: LoadGenerator.Result
        var bare: Double
        var commits: [Double]
        /// Processor time of the service's backends for each notification until it was published, in microseconds.
        var processor: Double
    }

    func measures(_ rounds: Int) throws -> [Measure] {
        progress("accept: POST to one user with two devices, \(Self.clients) clients")
        let key = platform.key(of: Audience.bulkApp)
        let load = LoadGenerator(address: platform.address, connections: Self.clients)
        let app = try platform.database.integer("SELECT id FROM apps WHERE slug = '\(Audience.bulkApp)'")
        let bare = BareCommit(database: platform.database, app: app, devices: audience.devices)
        var next = 0
        platform.stopDispatchers()
        defer { platform.resumeDispatchers() }
        let samples = try alternate(rounds) { () -> (Sample, String) in
            let posts = (next..<next + requests).map { audience.toUser($0, key: key) }
            next += requests
            let before = try platform.database.processorTimes(of: "token-service")
            let ours = try load.run(posts)
            // Wait until the platform is idle, so that it does not disturb the baseline.
            try platform.waitUntilPublished()
            let after = try platform.database.processorTimes(of: "token-service")
            let processor = after.reduce(0) { $0 + $1.value - (before[$1.key] ?? 0) } * 1_000_000 / Double(requests)
            let rate = try bare.rate(requests, clients: Self.clients)
            let commits = try bare.latencies(500)
            let text =
                "\(Int(ours.rate))/s, p50 \(milliseconds(ours.percentile(0.5))), p99 \(milliseconds(ours.percentile(0.99)));"
                + " PostgreSQL \(Int(processor)) µs each; pgbench \(Int(rate))/s; bare commit \(milliseconds(median(commits)))"
            return (Sample(ours: ours, bare: rate, commits: commits, processor: processor), text)
        }
        try platform.forget()
        return Self.measures(of: samples)
    }

    private static func measures(of samples: [Sample]) -> [Measure] {
        let commit = median(samples.map { median($0.commits) }) * 1000
        func latency(_ name: String, _ share: Double) -> Measure {
            Measure(
                name: "accept: \(name)", value: median(samples.map { $0.ours.percentile(share) }) * 1000, unit: "ms",
                baseline: "one bare commit", baselineValue: commit)
        }
        return [
            Measure(
                name: "accept: POST to a user with two devices", value: median(samples.map(\.ours.rate)), unit: "requests/s",
                baseline: "pgbench insert, \(clients) clients", baselineValue: median(samples.map(\.bare)), bar: .ratioAtLeast(1)),
            latency("p50", 0.5), latency("p99", 0.99),
            Measure(name: "accept: PostgreSQL's processor time each", value: median(samples.map(\.processor)), unit: "µs"),
        ]
    }
}
