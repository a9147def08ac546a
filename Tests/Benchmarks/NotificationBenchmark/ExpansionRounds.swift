import BenchmarkSupport
import Broker
import PushModel
import RabbitMQ

/// From the acceptance of a notification to everybody until the broker has confirmed its last job, beside two bare programs on the same
/// servers: `COPY … TO` of the same rows, and the C publisher with the same messages. Dispatchers stand still.
struct ExpansionRounds {
    /// Messages of the bare publisher that may wait for their confirm.
    private static let window = 1000

    let platform: PlatformUnderTest
    let audience: Audience

    init(_ platform: PlatformUnderTest, _ audience: Audience) {
        self.platform = platform
        self.audience = audience
    }

    struct Sample {
        var seconds: Double
        var copy: Double
        var publish: Double
        /// MiB above idle.
        var memory: Double
        var idle: Double
    }

    func measures(_ rounds: Int) throws -> [Measure] {
        progress("expand: \(audience.devices) devices to confirmed jobs")
        let app = try platform.database.integer("SELECT id FROM apps WHERE slug = '\(Audience.bulkApp)'")
        let topology = try platform.declareBare()
        let job = JobSample.encoded(deliveries: PushJob.maximumDeliveries)
        let jobs = (audience.devices + PushJob.maximumDeliveries - 1) / PushJob.maximumDeliveries
        platform.stopDispatchers()
        defer { platform.resumeDispatchers() }
        let samples = try alternate(rounds) { () -> (Sample, String) in
            let idle = try platform.service.resident()
            try platform.service.forgetPeak()
            let seconds = try audience.waitUntilExpanded(try audience.sendToAll(on: platform), on: platform)
            let memory = max(0, try platform.service.peak() - idle)
            try platform.forget()
            let copy = try copyOut(app: app)
            let publish =
                Double(jobs)
                / (try platform.bare.run(
                    exchange: topology.jobsExchange, routingKey: topology.jobRoutingKey(.bulk), body: job, messages: jobs,
                    window: Self.window)).rate
            try platform.withBroker { try $0.purge(topology.jobQueue(.bulk)) }
            func rate(_ seconds: Double) -> Int { Int(Double(audience.devices) / seconds) }
            let text =
                "\(rate(seconds)) devices/s, \(Int(memory)) MiB above idle; COPY \(rate(copy))/s, bare publisher \(rate(publish))/s"
            return (Sample(seconds: seconds, copy: copy, publish: publish, memory: memory, idle: idle), text)
        }
        let devices = Double(audience.devices)
        let (copy, publish) = (devices / median(samples.map(\.copy)), devices / median(samples.map(\.publish)))
        return [
            Measure(
                name: "expand: devices to confirmed jobs", value: devices / median(samples.map(\.seconds)), unit: "devices/s",
                baseline: copy < publish ? "COPY TO" : "bare publisher", baselineValue: min(copy, publish), bar: .ratioAtLeast(0.6)),
            Measure(
                name: "expand: the same, beside the faster one", value: devices / median(samples.map(\.seconds)), unit: "devices/s",
                baseline: copy < publish ? "bare publisher" : "COPY TO", baselineValue: max(copy, publish)),
            Measure(
                name: "expand: peak memory above idle", value: samples.map(\.memory).max() ?? 0, unit: "MiB", baseline: "idle",
                baselineValue: median(samples.map(\.idle)), bar: .valueAtMost(64)),
        ]
    }

    /// - Returns: seconds to read everything that a fan-out reads, in one go.
    private func copyOut(app: Int) throws -> Double {
        let begin = ContinuousClock.now
        try platform.database.psql(
            """
            COPY (
                SELECT t.id, t.token, t.environment, i.id, i.owner_epoch, t.proven_at IS NULL
                FROM installations i JOIN tokens t ON t.app_id = i.app_id AND t.installation = i.id
                WHERE i.app_id = \(app) AND i.deregistered_at IS NULL AND t.purpose = 'alert' AND t.state = 'active'
            ) TO STDOUT
            """, output: "\(platform.database.folder)/copied")
        return begin.duration(to: .now) / .seconds(1)
    }
}
