import BenchmarkSupport
import Broker
import Foundation
import PushModel
import RabbitMQ
import StrictJSON

/// From the API call to both arrivals at the simulator, one call at a time on an idle platform, beside one bare commit and one bare
/// confirmed publish. The bare ones also meet idle servers, with resting processors, caches and threads. The benchmark also reports their
/// times back to back.
struct IdleRounds {
    /// Before each call and each bare publish.
    private static let restMilliseconds = 20
    /// About as often as calls come.
    private static let commitsPerSecond = 45

    let platform: PlatformUnderTest
    let audience: Audience
    let calls: Int

    init(_ platform: PlatformUnderTest, _ audience: Audience, calls: Int) {
        self.platform = platform
        self.audience = audience
        self.calls = calls
    }

    struct Sample {
        var arrivals: [Double]
        var answers: [Double]
        var commit: Double
        var publish: Double
        /// Back to back.
        var hotCommit: Double
        var hotPublish: Double
    }

    func measures(_ rounds: Int) throws -> [Measure] {
        progress("idle: from the API call to the simulator")
        let app = try platform.database.integer("SELECT id FROM apps WHERE slug = '\(Audience.bulkApp)'")
        let bareCommit = BareCommit(database: platform.database, app: app, devices: audience.devices)
        let topology = try platform.declareBare()
        let job = JobSample.encoded(deliveries: 2)
        let samples = try alternate(rounds) { () -> (Sample, String) in
            let (arrivals, answers) = try latencies()
            let publish = { (pause: Int) in
                try platform.bare.run(
                    exchange: topology.jobsExchange, routingKey: topology.jobRoutingKey(.now), body: job, messages: calls, window: 1,
                    pause: pause
                ).median
            }
            let sample = Sample(
                arrivals: arrivals, answers: answers,
                commit: median(try bareCommit.latencies(calls, pace: Self.commitsPerSecond)), publish: try publish(Self.restMilliseconds),
                hotCommit: median(try bareCommit.latencies(calls * 2)), hotPublish: try publish(0))
            try platform.withBroker { try $0.purge(topology.jobQueue(.now)) }
            let text =
                "arrival p50 \(milliseconds(median(arrivals))), answer p50 \(milliseconds(median(answers)));"
                + " bare commit \(milliseconds(sample.commit)), bare publish \(milliseconds(sample.publish));"
                + " back to back \(milliseconds(sample.hotCommit)) and \(milliseconds(sample.hotPublish))"
            return (sample, text)
        }
        let (commit, publish) = (median(samples.map(\.commit)) * 1000, median(samples.map(\.publish)) * 1000)
        let hot = (median(samples.map(\.hotCommit)) + median(samples.map(\.hotPublish))) * 1000
        return [
            Measure(
                name: "idle: API call to arrival, p50", value: median(samples.map { median($0.arrivals) }) * 1000, unit: "ms",
                baseline: "bare commit + publish", baselineValue: commit + publish, bar: .ratioAtMost(3)),
            Measure(
                name: "idle: API call to arrival, p99", value: median(samples.map { percentile($0.arrivals, 0.99) }) * 1000, unit: "ms"),
            Measure(
                name: "idle: API call to 202, p50", value: median(samples.map { median($0.answers) }) * 1000, unit: "ms",
                baseline: "bare commit", baselineValue: commit),
            Measure(
                name: "idle: one bare confirmed publish", value: publish, unit: "ms"),
            Measure(
                name: "idle: bare commit + publish", value: commit + publish, unit: "ms", baseline: "back to back", baselineValue: hot),
        ]
    }

    /// The simulator's answer to a waiting question marks the end, so the figure includes a little time of the simulator.
    private func latencies() throws -> (arrivals: [Double], answers: [Double]) {
        let (service, simulator) = (try HTTPConnection(to: platform.address), try HTTPConnection(to: platform.simulator))
        var sequence = Int64(try platform.pushes())
        var (arrivals, answers): ([Double], [Double]) = ([], [])
        for number in 0..<calls {
            let request = audience.toUser(number, key: platform.key(of: Audience.bulkApp))
            try simulator.send(HTTPRequest("GET", "/v1/journal?after=\(sequence)&wait_count=2&timeout_seconds=30", key: ""))
            // The question must wait before its answer comes, and the platform must be at rest.
            Thread.sleep(forTimeInterval: Double(Self.restMilliseconds) / 1000)
            let begin = ContinuousClock.now
            guard try service.call(request).status == 202 else { throw BenchmarkError("a notification was refused") }
            answers.append(begin.duration(to: .now) / .seconds(1))
            let journal = try simulator.receive()
            arrivals.append(begin.duration(to: .now) / .seconds(1))
            guard let last = try JSONValue.parse(journal.body, maximumBytes: 1 << 20)["last_sequence"]?.integerValue, last == sequence + 2
            else { throw BenchmarkError("not exactly two pushes arrived; is another load running?") }
            sequence = last
        }
        return (arrivals, answers)
    }
}

/// A job as the service publishes it, for the bare publisher.
enum JobSample {
    static func encoded(deliveries: Int) -> [UInt8] {
        let now = Int64(Date().timeIntervalSince1970 * 1000)
        guard let app = AppSlug(Audience.bulkApp) else { return [] }
        return PushJob(
            notification: .timeOrdered(milliseconds: now), app: app, lane: .bulk, pushType: .alert,
            topic: "com.example.\(Audience.bulkApp)", priority: 10, apnsExpiration: now / 1000 + 86_400, expiresAt: now + 86_400_000,
            acceptedAt: now, onUnknown: .resend, payload: Array(Audience.payload.utf8),
            deliveries: (0..<deliveries).compactMap { number in
                DeviceToken(hex: Audience.nowToken(number)).map { token in
                    PushJob.Delivery(id: .random(), token: token, environment: .production, installation: .random(), ownerEpoch: 1)
                }
            }
        ).encoded()
    }
}
