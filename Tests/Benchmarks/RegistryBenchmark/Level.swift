import BenchmarkSupport

/// The figures with one number of installations in the database.
struct Level {
    let size: Int
    var registrations: [LoadGenerator.Result] = []
    /// pgbench's transactions per second.
    var refreshes: [Double] = []
    var reads: [LoadGenerator.Result] = []
    var queries: [Double] = []

    init(size: Int) { self.size = size }

    var registrationRate: Double { median(registrations.map(\.rate)) }
    var readRate: Double { median(reads.map(\.rate)) }
    /// Microseconds of the whole machine's time for each request.
    var registrationCost: Double { 1_000_000 / registrationRate }
    var readCost: Double { 1_000_000 / readRate }
}

extension RegistryBenchmark {
    /// The middle size carries the bars, the first and the last say how the cost grows.
    static func measures(of levels: [Level], connections: Int) -> [Measure] {
        guard let first = levels.first, let last = levels.last else { return [] }
        let middle = levels[levels.count / 2]
        let hasReads = !middle.reads.isEmpty
        var measures: [Measure] = []
        for level in levels {
            let isMiddle = level.size == middle.size
            measures.append(
                Measure(
                    name: "registrations, \(level.size) stored", value: level.registrationRate, unit: "registrations/s",
                    baseline: "pgbench refresh, \(connections) connections", baselineValue: median(level.refreshes),
                    bar: isMiddle ? .ratioAtLeast(1) : nil))
            guard hasReads else { continue }
            measures.append(
                Measure(
                    name: "a user's installations, \(level.size) stored", value: level.readRate, unit: "reads/s",
                    baseline: "pgbench of the same query", baselineValue: median(level.queries),
                    bar: isMiddle ? .ratioAtLeast(0.25) : nil))
        }
        measures += [latency("registrations, p50", middle.registrations, 0.5), latency("registrations, p99", middle.registrations, 0.99)]
        if hasReads {
            measures += [
                latency("a user's installations, p50", middle.reads, 0.5), latency("a user's installations, p99", middle.reads, 0.99),
            ]
        }
        guard last.size > first.size else { return measures }
        measures.append(growth("a registration", from: first.registrationCost, at: first.size, to: last.registrationCost, at: last.size))
        if hasReads { measures.append(growth("a read", from: first.readCost, at: first.size, to: last.readCost, at: last.size)) }
        return measures
    }

    private static func growth(_ name: String, from first: Double, at small: Int, to last: Double, at large: Int) -> Measure {
        Measure(
            name: "cost of \(name) at \(large)", value: last, unit: "us", baseline: "at \(small)", baselineValue: first,
            bar: .ratioAtMost(1.5))
    }

    private static func latency(_ name: String, _ results: [LoadGenerator.Result], _ share: Double) -> Measure {
        Measure(name: name, value: median(results.map { $0.percentile(share) }) * 1000, unit: "ms")
    }
}
