import BenchmarkSupport
import Foundation

/// A dispatcher with 300 pools, all of which were proven at its start and five of which are used: threads and memory.
extension DispatcherBenchmark.Compare {
    func measurePools() async throws -> [Measure] {
        try ProcessUsage.resetPeak(of: poolsPid)
        for app in 0..<5 {
            _ = try await dispatch(deliveries / 500, of: 100, app: "app-\(app)", by: [poolsPid], on: broker.on("pools"))
        }
        let (threads, peak) = (try ProcessUsage.threads(of: poolsPid), try ProcessUsage.peakMebibytes(of: poolsPid))
        progress("pools: \(threads) threads, peak \(String(format: "%.1f", peak)) MiB")
        return [
            Measure(name: "300 pools, 5 of them used: threads", value: threads, unit: "threads", bar: .valueAtMost(40)),
            Measure(name: "300 pools, 5 of them used: peak resident", value: peak, unit: "MiB", bar: .valueAtMost(96)),
        ]
    }
}
