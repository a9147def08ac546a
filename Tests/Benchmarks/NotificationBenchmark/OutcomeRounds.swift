import BenchmarkSupport
import Foundation

/// Each has the machine to itself: the dispatchers send to a large audience while the token service is frozen, and then the token service
/// applies the waiting outcomes.
struct OutcomeRounds {
    let platform: PlatformUnderTest
    let audience: Audience

    init(_ platform: PlatformUnderTest, _ audience: Audience) {
        self.platform = platform
        self.audience = audience
    }

    struct Sample {
        var produced: Double
        var applied: Double
    }

    func measures(_ rounds: Int) throws -> [Measure] {
        progress("outcomes: of \(audience.devices) deliveries, applied after they were all sent")
        var arrivals = try Arrivals(journal: platform.journal)
        let samples = try alternate(rounds) { () -> (Sample, String) in
            platform.stopDispatchers()
            let notification = try audience.sendToAll(on: platform)
            _ = try audience.waitUntilExpanded(notification, on: platform)
            try arrivals.read()
            arrivals.forget()
            platform.stopService()
            let goal = try platform.pushes() + audience.devices
            platform.resumeDispatchers()
            try platform.wait("everything is sent", seconds: 600) { try platform.pushes() >= goal ? () : nil }
            // Waits until the last outcomes are in their queue.
            Thread.sleep(forTimeInterval: 1)
            try arrivals.read()
            guard let (first, last) = arrivals.bulk else { throw BenchmarkError("nothing was sent") }
            let begin = Date().timeIntervalSince1970
            platform.resumeService()
            let completed = try audience.waitUntilCompleted(notification, on: platform)
            try platform.forget()
            let devices = Double(audience.devices)
            let sample = Sample(produced: devices / (last - first), applied: devices / (completed - begin))
            return (sample, "dispatchers \(Int(sample.produced))/s, then outcomes \(Int(sample.applied))/s")
        }
        return [
            Measure(
                name: "outcomes: applied", value: median(samples.map(\.applied)), unit: "deliveries/s", baseline: "dispatchers alone",
                baselineValue: median(samples.map(\.produced)), bar: .ratioAtLeast(1))
        ]
    }
}
