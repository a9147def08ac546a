import BenchmarkSupport

/// Two dispatchers beside one, while each mostly waits for the simulator's answers.
extension DispatcherBenchmark.Compare {
    func measurePair() async throws -> [Measure] {
        let samples = try await alternate("pair, answers after 50 ms") {
            [
                ("one", try await dispatch(deliveries / 100, of: 100, by: [singlePid], on: broker.on("single"), answerMilliseconds: 50)),
                ("two", try await dispatch(deliveries / 100, of: 100, by: pairPid, on: broker.on("pair"), answerMilliseconds: 50)),
            ]
        }
        return [
            Measure(
                name: "two dispatchers: rate, answers after 50 ms", value: (samples["two"] ?? []).rate, unit: "deliveries/s",
                baseline: "one dispatcher", baselineValue: (samples["one"] ?? []).rate, bar: .ratioAtLeast(1.8))
        ]
    }
}
