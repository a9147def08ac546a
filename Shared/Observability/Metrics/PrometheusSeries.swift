import CoreMetrics
import Synchronization

/// One line, or one histogram, of the page.
protocol PrometheusSeries: AnyObject, Sendable {
    func write(to page: inout PrometheusPage, name: String, labels: PrometheusLabels)
}

/// A counter that only grows. Whole steps, which nearly all are, cost one atomic addition.
final class PrometheusCounter: PrometheusSeries, CounterHandler, FloatingPointCounterHandler {
    private let whole = Atomic<Int64>(0)
    private let fraction = Mutex<Double>(0)

    func increment(by amount: Int64) {
        guard amount > 0 else { return }
        whole.wrappingAdd(amount, ordering: .relaxed)
    }

    func increment(by amount: Double) {
        guard amount > 0, amount.isFinite else { return }
        fraction.withLock { $0 += amount }
    }

    func reset() {
        whole.store(0, ordering: .relaxed)
        fraction.withLock { $0 = 0 }
    }

    func write(to page: inout PrometheusPage, name: String, labels: PrometheusLabels) {
        page.sample(name, labels, Double(whole.load(ordering: .relaxed)) + fraction.withLock { $0 })
    }
}

final class PrometheusGauge: PrometheusSeries, MeterHandler, RecorderHandler {
    private let value = Mutex<Double>(0)

    func set(_ value: Int64) { set(Double(value)) }
    func set(_ value: Double) { self.value.withLock { $0 = value } }
    func increment(by amount: Double) { value.withLock { $0 += amount } }
    func decrement(by amount: Double) { value.withLock { $0 -= amount } }
    func record(_ value: Int64) { set(Double(value)) }
    func record(_ value: Double) { set(value) }

    func write(to page: inout PrometheusPage, name: String, labels: PrometheusLabels) {
        page.sample(name, labels, value.withLock { $0 })
    }
}

/// A value that is read when the page is made. Absent from the page while there is none.
final class PrometheusObservation: PrometheusSeries {
    private let read: @Sendable () -> Double?

    init(read: @escaping @Sendable () -> Double?) { self.read = read }

    func write(to page: inout PrometheusPage, name: String, labels: PrometheusLabels) {
        if let value = read() { page.sample(name, labels, value) }
    }
}

/// All series of a metric, read when the page is made: for those that come and go.
final class PrometheusFamily: PrometheusSeries {
    private let read: @Sendable () -> [PrometheusMetrics.Sample]

    init(read: @escaping @Sendable () -> [PrometheusMetrics.Sample]) { self.read = read }

    func write(to page: inout PrometheusPage, name: String, labels: PrometheusLabels) {
        for sample in read() { page.sample(name, PrometheusLabels(sample.dimensions), sample.value) }
    }
}

/// A family like ``PrometheusFamily``, for histograms kept elsewhere.
final class PrometheusHistogramFamily: PrometheusSeries {
    private let read: @Sendable () -> [PrometheusMetrics.HistogramSample]

    init(read: @escaping @Sendable () -> [PrometheusMetrics.HistogramSample]) { self.read = read }

    func write(to page: inout PrometheusPage, name: String, labels: PrometheusLabels) {
        for sample in read() {
            let labels = PrometheusLabels(sample.dimensions)
            page.histogram(name, labels, bounds: sample.bounds, counts: sample.counts.map(UInt64.init(clamping:)), sum: sample.sum)
        }
    }
}

/// Counts per bucket, with sum and count. Timers record seconds.
final class PrometheusHistogram: PrometheusSeries, TimerHandler, RecorderHandler {
    private struct State {
        /// One more than there are bounds: the last is for larger values.
        var counts: [UInt64]
        var sum: Double = 0
    }

    private let bounds: [Double]
    private let state: Mutex<State>

    init(bounds: [Double]) {
        self.bounds = bounds
        state = Mutex(State(counts: Array(repeating: 0, count: bounds.count + 1)))
    }

    func recordNanoseconds(_ duration: Int64) { record(Double(duration) / 1_000_000_000) }
    func record(_ value: Int64) { record(Double(value)) }

    func record(_ value: Double) {
        guard !value.isNaN else { return }
        let bucket = bounds.firstIndex { value <= $0 } ?? bounds.count
        state.withLock { state in
            state.counts[bucket] += 1
            state.sum += value
        }
    }

    func write(to page: inout PrometheusPage, name: String, labels: PrometheusLabels) {
        let (counts, sum) = state.withLock { ($0.counts, $0.sum) }
        page.histogram(name, labels, bounds: bounds, counts: counts, sum: sum)
    }
}
