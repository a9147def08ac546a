import BenchmarkSupport

/// One job in a hundred is traced: what that costs a dispatcher, beside one that traces nothing and gets the same messages.
extension DispatcherBenchmark.Compare {
    func measureTraces() async throws -> [Measure] {
        let traced = try broker.on("traced")
        var measures: [Measure] = []
        for (name, size, jobs) in [("jobs of 100", 100, deliveries / 100), ("jobs of 1", 1, deliveries / 2)] {
            let samples = try await alternate("traces, \(name)") {
                [
                    ("off", try await dispatch(jobs, of: size, by: [pid], on: broker, sampleEvery: 100)),
                    ("1 %", try await dispatch(jobs, of: size, by: [tracedPid], on: traced, sampleEvery: 100)),
                ]
            }
            measures.append(
                Measure(
                    name: "traces: CPU, \(name), 1 % traced", value: (samples["1 %"] ?? []).cpuMicroseconds, unit: "us/delivery",
                    baseline: "traces off", baselineValue: (samples["off"] ?? []).cpuMicroseconds, bar: .ratioAtMost(1.03)))
        }
        return measures
    }
}
