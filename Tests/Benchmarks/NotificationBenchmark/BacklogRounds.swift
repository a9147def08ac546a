import BenchmarkSupport
import Foundation

/// The lane `now`, a hundred calls a second, from the API call to the simulator: alone, and while dispatchers work off a backlog in `bulk`.
/// The same rounds measure how far behind the outcomes are.
struct BacklogRounds {
    /// Of a load without a backlog.
    private static let aloneSeconds = 5.0

    /// Answers after 60 to 100 ms, as Apple's are.
    private static let apple = """
        {"v": 1, "name": "apple", "requests": [
            {"name": "late", "do": [{"action": "late", "delay": {"percentiles": [[1, 60], [50, 80], [100, 100]]}}]}]}
        """

    let platform: PlatformUnderTest
    let audience: Audience
    /// The simulator answers as slowly as Apple.
    let isLate: Bool

    init(_ platform: PlatformUnderTest, _ audience: Audience, isLate: Bool = false) {
        self.platform = platform
        self.audience = audience
        self.isLate = isLate
    }

    struct Sample {
        var alone: [Double]
        var beside: [Double]
        /// How late calls left beside the backlog, seconds: the benchmark had no processor, or all of its connections waited for answers.
        var lateness: [Double]
        var dispatchRate: Double
        var outcomeRate: Double
        /// Seconds from the last push to the last outcome.
        var lag: Double
    }

    func measures(_ rounds: Int) throws -> [Measure] {
        progress("\(name): the lane now beside \(audience.devices) bulk deliveries")
        if isLate { try platform.play(scenario: Self.apple) }
        defer { if isLate { platform.playNothing() } }
        var arrivals = try Arrivals(journal: platform.journal)
        var next = 0
        let samples = try alternate(rounds) { () -> (Sample, String) in
            let alone = try self.alone(from: &next, &arrivals)
            let sample = try beside(from: &next, &arrivals, alone: alone)
            let text =
                """
                now p99 \(milliseconds(percentile(alone, 0.99))) alone, \(milliseconds(percentile(sample.beside, 0.99))) beside the backlog
                """
                + " (\(sample.beside.count) calls, p99 \(milliseconds(percentile(sample.lateness, 0.99))) late when they left);"
                + " \(Int(sample.dispatchRate)) pushes/s, lag \(milliseconds(sample.lag))"
            return (sample, text)
        }
        return measures(of: samples)
    }

    private func alone(from next: inout Int, _ arrivals: inout Arrivals) throws -> [Double] {
        let end = ContinuousClock.now + .seconds(Self.aloneSeconds)
        let calls = try send(from: &next) { ContinuousClock.now < end }
        return try latencies(of: calls, &arrivals)
    }

    private func beside(
        from next: inout Int, _ arrivals: inout Arrivals, alone: [Double]
    ) throws -> Sample {
        platform.stopDispatchers()
        let notification = try audience.sendToAll(on: platform)
        _ = try audience.waitUntilExpanded(notification, on: platform)
        try arrivals.read()
        arrivals.forget()
        let goal = try platform.pushes() + audience.devices
        platform.resumeDispatchers()
        let simulator = platform.simulator
        let calls = try send(from: &next) { try PlatformUnderTest.pushes(at: simulator) < goal }
        let completed = try audience.waitUntilCompleted(notification, on: platform)
        var times = try latencies(of: calls, &arrivals)
        guard let (first, last) = arrivals.bulk, arrivals.bulkCount >= audience.devices else {
            throw BenchmarkError("only \(arrivals.bulkCount) of the backlog arrived")
        }
        // Counts only calls during the backlog.
        times = zip(calls, times).filter { $0.0.due >= first && $0.0.due <= last }.map { $0.1 }
        let devices = Double(audience.devices)
        try platform.forget()
        return Sample(
            alone: alone, beside: times, lateness: calls.map { $0.sent - $0.due }, dispatchRate: devices / (last - first),
            outcomeRate: devices / (completed - first),
            lag: max(0, completed - last))
    }

    private func send(
        from next: inout Int, while goesOn: @escaping @Sendable () throws -> Bool
    ) throws -> PacedLoad.Calls {
        let key = platform.key(of: Audience.nowApp)
        let calls = try PacedLoad(address: platform.address).run(from: next, { Audience.toInstallation($0, key: key) }, while: goesOn)
        next += calls.count
        return calls
    }

    /// In the order of the calls; waits for the last arrival.
    private func latencies(of calls: PacedLoad.Calls, _ arrivals: inout Arrivals) throws -> [Double] {
        let tokens = calls.map { Audience.nowToken($0.number % Audience.nowDevices) }
        var read = arrivals
        try platform.wait("every call has arrived", seconds: 60) {
            try read.read()
            return tokens.allSatisfy { read.now[$0] != nil } ? () : nil
        }
        arrivals = read
        return zip(calls, tokens).map { call, token in (read.now[token] ?? call.due) - call.due }
    }

    private var name: String { isLate ? "backlog, answers after 60 to 100 ms" : "backlog" }

    private func measures(of samples: [Sample]) -> [Measure] {
        func p99(_ values: [[Double]]) -> Double { median(values.map { percentile($0, 0.99) }) * 1000 }
        func p50(_ values: [[Double]]) -> Double { median(values.map { percentile($0, 0.5) }) * 1000 }
        let (alone, beside) = (samples.map(\.alone), samples.map(\.beside))
        return [
            Measure(
                name: "\(name): lane now, p99 beside \(audience.devices) bulk", value: p99(beside), unit: "ms", baseline: "without",
                baselineValue: p99(alone), bar: .ratioAtMost(isLate ? 3 : 4)),
            Measure(
                name: "\(name): lane now, p50", value: p50(beside), unit: "ms", baseline: "without", baselineValue: p50(alone)),
            Measure(
                name: "\(name): outcomes applied meanwhile", value: median(samples.map(\.outcomeRate)), unit: "deliveries/s",
                baseline: "pushes sent", baselineValue: median(samples.map(\.dispatchRate))),
            Measure(
                name: "\(name): outcomes behind the last push", value: samples.map(\.lag).max() ?? 0, unit: "s", bar: .valueAtMost(5)),
        ]
    }
}
