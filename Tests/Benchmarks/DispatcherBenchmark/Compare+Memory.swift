import BenchmarkSupport
import Foundation

/// The memory of a dispatcher at full speed, after many deliveries and before a backlog.
extension DispatcherBenchmark.Compare {
    func measureMemory() async throws -> [Measure] {
        let jobs = deliveries / 100
        var peaks: [Double] = []
        var done = 0
        while done < soak {
            try ProcessUsage.resetPeak(of: pid)
            done += try await dispatch(jobs, of: 100, by: [pid], on: broker).count
            peaks.append(try ProcessUsage.peakMebibytes(of: pid))
            progress("memory: \(done) deliveries, peak \(String(format: "%.1f", peaks[peaks.count - 1])) MiB")
        }
        try ProcessUsage.resetPeak(of: pid)
        _ = try await dispatch(jobs * 5, of: 100, by: [pid], on: broker)
        let backlog = try ProcessUsage.peakMebibytes(of: pid)
        let (first, last) = (peaks[0], median(peaks.suffix(3)))
        return [
            Measure(
                name: "memory: peak resident at full speed", value: peaks.max() ?? 0, unit: "MiB", bar: .valueAtMost(64)),
            Measure(
                name: "memory: after \(done) deliveries more", value: last, unit: "MiB", baseline: "before them", baselineValue: first,
                bar: .ratioAtMost(1.05)),
            Measure(
                name: "memory: before a backlog of \(jobs * 500)", value: backlog, unit: "MiB",
                baseline: "of \(jobs * 100)", baselineValue: last, bar: .ratioAtMost(1.05)),
        ]
    }
}
