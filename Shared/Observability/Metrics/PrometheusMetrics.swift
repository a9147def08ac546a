package import CoreMetrics
import Synchronization

/// A backend for swift-metrics that answers with Prometheus' text format 0.0.4.
///
/// Labels become names: characters that Prometheus does not allow become `_`, a counter ends in `_total` and a timer in `_seconds`, also if
/// the label did not. Any thread may record and render. A metric made twice with the same label and dimensions is one metric.
package final class PrometheusMetrics: Sendable {
    /// The bounds from half a millisecond to a minute: the range of timers here.
    package static let durationBuckets = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60]
    /// The bounds for recorders: sizes of batches and messages.
    package static let sizeBuckets: [Double] = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 50_000, 100_000, 1_000_000]
    /// Dimensions should come from closed sets. If one does not, its metric stops growing here: all further values are one series.
    package static let maximumSeries = 2000

    enum Kind: String {
        case counter, gauge, histogram
    }

    struct Family {
        let kind: Kind
        var series: [PrometheusLabels: any PrometheusSeries] = [:]
    }

    private struct State {
        var families: [String: Family] = [:]
        var help: [String: String] = [:]
        var documented: [DocumentedMetric] = []
        var buckets: [String: [Double]] = [:]
    }

    private let state = Mutex(State())

    package init() {}

    /// Gives metrics their HELP lines. A metric that is not described is exported without one.
    ///
    /// Counters without labels exist at 0 from now on: Prometheus sees no increase in the first value of a series.
    package func describe(_ metrics: [DocumentedMetric]) {
        state.withLock { state in
            for metric in metrics {
                if state.help.updateValue(metric.help, forKey: metric.name) == nil { state.documented.append(metric) }
                guard metric.kind == .counter, metric.labels.isEmpty, state.families[metric.name] == nil else { continue }
                state.families[metric.name] = Family(kind: .counter, series: [PrometheusLabels([]): PrometheusCounter()])
            }
        }
    }

    /// The described metrics, in the order in which they were described.
    package var documented: [DocumentedMetric] { state.withLock { $0.documented } }

    /// - Parameters:
    ///   - name: Of a timer (seconds) or recorder that is made later.
    ///   - bounds: Upper bounds, ascending.
    package func setBuckets(_ name: String, _ bounds: [Double]) { state.withLock { $0.buckets[name] = bounds.sorted() } }

    /// A gauge, or a counter kept elsewhere, that is read at each scrape. `read` must be quick and may be called from any thread.
    package func observe(
        _ name: String, dimensions: [(String, String)] = [], isCounter: Bool = false, read: @escaping @Sendable () -> Double?
    ) {
        _ = series(name, isCounter ? .counter : .gauge, dimensions) { PrometheusObservation(read: read) }
    }

    /// One series of ``observeAll(_:isCounter:read:)``.
    package struct Sample: Sendable {
        package let dimensions: [(String, String)]
        package let value: Double

        package init(_ dimensions: [(String, String)], _ value: Double) {
            self.dimensions = dimensions
            self.value = value
        }
    }

    /// One histogram of ``observeHistograms(_:read:)``.
    package struct HistogramSample: Sendable {
        package let dimensions: [(String, String)]
        /// Upper bounds, ascending.
        package let bounds: [Double]
        /// One for each bound, and one for everything beyond.
        package let counts: [Int]
        package let sum: Double

        package init(_ dimensions: [(String, String)], bounds: [Double], counts: [Int], sum: Double) {
            self.dimensions = dimensions
            self.bounds = bounds
            self.counts = counts
            self.sum = sum
        }
    }

    /// All series of a metric at once, for those that come and go: as ``observe(_:dimensions:isCounter:read:)``. Dimensions must differ,
    /// and come from closed sets: nothing bounds them here.
    package func observeAll(_ name: String, isCounter: Bool = false, read: @escaping @Sendable () -> [Sample]) {
        _ = series(name, isCounter ? .counter : .gauge, []) { PrometheusFamily(read: read) }
    }

    package func observeHistograms(_ name: String, read: @escaping @Sendable () -> [HistogramSample]) {
        _ = series(name, .histogram, []) { PrometheusHistogramFamily(read: read) }
    }

    /// The page that Prometheus reads, to be served as ``contentType``.
    package func render() -> String {
        let (families, help) = state.withLock { ($0.families, $0.help) }
        var page = PrometheusPage()
        for (key, family) in families.sorted(by: { $0.key < $1.key }) {
            let name = PrometheusText.name(key, kind: family.kind)
            page.begin(name, kind: family.kind, help: help[key])
            for (labels, series) in family.series.sorted(by: { $0.key.text < $1.key.text }) {
                series.write(to: &page, name: name, labels: labels)
            }
        }
        return page.text
    }

    package static let contentType = "text/plain; version=0.0.4; charset=utf-8"

    /// The series of that label and dimensions: the existing one, or a new one.
    ///
    /// A label used for two kinds of metric would make an invalid page; the second kind gets a name of its own.
    func series<Series: PrometheusSeries>(
        _ label: String, _ kind: Kind, _ dimensions: [(String, String)], _ make: () -> Series
    ) -> Series {
        let labels = PrometheusLabels(dimensions)
        return state.withLock { state in
            var name = label
            if let family = state.families[name], family.kind != kind { name += "_\(kind.rawValue)" }
            if let known = state.families[name]?.series[labels] as? Series { return known }
            let isFull = (state.families[name]?.series.count ?? 0) >= Self.maximumSeries
            let place = isFull ? PrometheusLabels.overflow : labels
            if isFull, let overflow = state.families[name]?.series[place] as? Series { return overflow }
            let made = make()
            state.families[name, default: Family(kind: kind)].series[place] = made
            return made
        }
    }

    func buckets(_ label: String, default fallback: [Double]) -> [Double] {
        state.withLock { $0.buckets[label] } ?? fallback
    }

    func remove(_ handler: AnyObject) {
        state.withLock { state in
            for (name, family) in state.families {
                for (labels, series) in family.series where series === handler {
                    state.families[name]?.series[labels] = nil
                    return
                }
            }
        }
    }
}

extension PrometheusMetrics: MetricsFactory {
    package func makeCounter(label: String, dimensions: [(String, String)]) -> any CounterHandler {
        series(label, .counter, dimensions) { PrometheusCounter() }
    }

    package func makeFloatingPointCounter(label: String, dimensions: [(String, String)]) -> any FloatingPointCounterHandler {
        series(label, .counter, dimensions) { PrometheusCounter() }
    }

    package func makeMeter(label: String, dimensions: [(String, String)]) -> any MeterHandler {
        series(label, .gauge, dimensions) { PrometheusGauge() }
    }

    package func makeRecorder(label: String, dimensions: [(String, String)], aggregate: Bool) -> any RecorderHandler {
        guard aggregate else { return series(label, .gauge, dimensions) { PrometheusGauge() } }
        let bounds = buckets(label, default: Self.sizeBuckets)
        return series(label, .histogram, dimensions) { PrometheusHistogram(bounds: bounds) }
    }

    package func makeTimer(label: String, dimensions: [(String, String)]) -> any TimerHandler {
        let label = label.hasSuffix("seconds") ? label : label + "_seconds"
        let bounds = buckets(label, default: Self.durationBuckets)
        return series(label, .histogram, dimensions) { PrometheusHistogram(bounds: bounds) }
    }

    package func destroyCounter(_ handler: any CounterHandler) { remove(handler) }
    package func destroyFloatingPointCounter(_ handler: any FloatingPointCounterHandler) { remove(handler) }
    package func destroyMeter(_ handler: any MeterHandler) { remove(handler) }
    package func destroyRecorder(_ handler: any RecorderHandler) { remove(handler) }
    package func destroyTimer(_ handler: any TimerHandler) { remove(handler) }
}
