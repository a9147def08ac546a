import BenchmarkSupport

/// Updates of Live Activities, each on two devices, beside alerts to the same users, from the request to the last outcome.
struct ActivityRounds {
    private static let clients = 64
    private static let update =
        #"{"event":"update","content_state":{"title":"Your order is packed","courier":{"lat":52.52,"lon":13.40},"minutes":12}}"#

    let platform: PlatformUnderTest
    /// Of each kind in a round; every activity is updated once.
    let requests: Int

    init(_ platform: PlatformUnderTest, requests: Int) {
        self.platform = platform
        self.requests = min(requests, Audience.nowDevices / 2)
    }

    private struct Cost {
        /// From the first request to the last outcome, requests/s.
        var rate: Double
        /// Processor time for each, in microseconds.
        var service: Double
        var database: Double
    }

    func measures(_ rounds: Int) throws -> [Measure] {
        progress("activities: updates beside alerts, \(requests) of each, to two devices, \(Self.clients) clients")
        try makeActivities()
        let key = platform.key(of: Audience.nowApp)
        let samples = try alternate(rounds) { () -> ((alerts: Cost, updates: Cost), String) in
            let alerts = try cost(
                (0..<requests).map { number in
                    request(#"{"to":{"user":"user-\#(number)"},"payload":\#(Audience.payload)}"#, key)
                })
            let updates = try cost(
                (0..<requests).map { number in
                    request(#"{"to":{"user":"user-\#(number)","activity":"activity-\#(number)"},"content":\#(Self.update)}"#, key)
                })
            let text =
                "alerts \(Int(alerts.rate))/s, \(Int(alerts.service)) + \(Int(alerts.database)) µs;"
                + " updates \(Int(updates.rate))/s, \(Int(updates.service)) + \(Int(updates.database)) µs (token service + PostgreSQL)"
            return ((alerts, updates), text)
        }
        try platform.database.psql("DELETE FROM activities; DELETE FROM tokens WHERE purpose LIKE 'activity:%'")
        try platform.forget()
        func measure(_ name: String, _ unit: String, _ bar: Measure.Bar?, _ value: (Cost) -> Double) -> Measure {
            Measure(
                name: "activities: \(name)", value: median(samples.map { value($0.updates) }), unit: unit, baseline: "alerts",
                baselineValue: median(samples.map { value($0.alerts) }), bar: bar)
        }
        return [
            measure("updates to their last outcome", "requests/s", nil) { $0.rate },
            measure("processor time of an update", "µs", .ratioAtMost(1.3)) { $0.service + $0.database },
            measure("the token service's part", "µs", nil) { $0.service },
            measure("PostgreSQL's part", "µs", nil) { $0.database },
        ]
    }

    private func request(_ body: String, _ key: String) -> HTTPRequest {
        HTTPRequest("POST", "/v1/apps/\(Audience.nowApp)/notifications", key: key, body: body)
    }

    /// One for each user, with an update token on both devices.
    private func makeActivities() throws {
        let app = try platform.database.integer("SELECT id FROM apps WHERE slug = '\(Audience.nowApp)'")
        try platform.database.psql(
            """
            INSERT INTO activities (app_id, id, owner, attributes_type, started_at, reported_at)
            SELECT \(app), 'activity-' || n, 'user-' || n, 'Order', now(), now() FROM generate_series(0, \(requests - 1)) AS n;
            INSERT INTO tokens (app_id, environment, purpose, token, installation, ordinal, registered_at, proven_at)
            SELECT app_id, 'production', 'activity:activity-' || substr(owner, 6), sha256(convert_to('activity ' || id, 'UTF8')), id,
                ordinal,
                now(), now()
            FROM installations WHERE app_id = \(app) AND substr(owner, 6)::int < \(requests)
            """)
        try platform.database.settle()
    }

    private func cost(_ posts: [HTTPRequest]) throws -> Cost {
        let load = LoadGenerator(address: platform.address, connections: Self.clients)
        let (service, database) = (try platform.service.processorTime(), try databaseTime())
        let start = ContinuousClock.now
        _ = try load.run(posts)
        try platform.wait("every notification has its outcomes", seconds: 120, pause: 0.02) {
            try platform.database.integer("SELECT count(*) FROM notifications WHERE state <> 'completed'") == 0 ? () : nil
        }
        let seconds = (ContinuousClock.now - start) / .seconds(1)
        func each(_ time: Double) -> Double { time * 1_000_000 / Double(posts.count) }
        return Cost(
            rate: Double(posts.count) / seconds, service: each(try platform.service.processorTime() - service),
            database: each(try databaseTime() - database))
    }

    private func databaseTime() throws -> Double {
        try platform.database.processorTimes(of: "token-service").values.reduce(0, +)
    }
}
