package import CoreMetrics

/// A metric is declared where it is made. Its name, labels and HELP stand there alone; ``PrometheusMetrics/documented`` gives them to the
/// reference. A metric that is declared twice has the same series.
extension PrometheusMetrics {
    /// A counter without labels. It is 0 from now on.
    package func counter(_ name: String, _ help: String) -> Counter { counters(name, [], help)[] }

    /// Counters of one metric, each made when it is first asked for.
    package func counters(_ name: String, _ labels: [String], _ help: String) -> MetricSeries<Counter> {
        declare(name, .counter, labels, help) { Counter(label: name, dimensions: $0, factory: $1) }
    }

    /// A counter for each value of a label. They are 0 from now on: Prometheus sees no increase in the first value of a series.
    package func counters<Value: CaseIterable & Hashable & RawRepresentable<String>>(
        _ name: String, by label: String, _: Value.Type, _ help: String
    ) -> [Value: Counter] {
        counters(name, [label], help).all(Value.self)
    }

    package func timer(_ name: String, _ help: String) -> Timer { timers(name, [], help)[] }

    package func timers(_ name: String, _ labels: [String], _ help: String) -> MetricSeries<Timer> {
        declare(name, .histogram, labels, help) { Timer(label: name, dimensions: $0, factory: $1) }
    }

    /// A histogram of sizes.
    /// - Parameter bounds: Upper bounds, ascending.
    package func recorder(_ name: String, _ bounds: [Double], _ help: String) -> Recorder {
        setBuckets(name, bounds)
        return declare(name, .histogram, [], help) { Recorder(label: name, dimensions: $0, aggregate: true, factory: $1) }[]
    }

    package func gauge(_ name: String, _ help: String) -> GaugeMetric { gauge(name, [], help) }

    package func gauge(_ name: String, _ labels: [String], _ help: String) -> GaugeMetric {
        describe([DocumentedMetric(name, .gauge, labels, help)])
        return GaugeMetric(registry: self, name: name, labels: labels)
    }

    private func declare<Series>(
        _ name: String, _ kind: DocumentedMetric.Kind, _ labels: [String], _ help: String,
        _ make: @escaping @Sendable ([(String, String)], PrometheusMetrics) -> Series
    ) -> MetricSeries<Series> {
        describe([DocumentedMetric(name, kind, labels, help)])
        return MetricSeries(registry: self, labels: labels, make: make)
    }

    /// The metrics that a program declares.
    package static func documented(by declare: (PrometheusMetrics) -> Void) -> [DocumentedMetric] {
        let registry = PrometheusMetrics()
        declare(registry)
        return registry.documented
    }
}

/// The series of a metric by the values of its labels.
package struct MetricSeries<Series>: Sendable {
    fileprivate let registry: PrometheusMetrics
    fileprivate let labels: [String]
    fileprivate let make: @Sendable ([(String, String)], PrometheusMetrics) -> Series

    /// - Parameter values: One for each label, in the order of the declaration.
    package subscript(values: String...) -> Series { make(dimensions(labels, values), registry) }

    /// Makes the series of a metric with one label.
    package func all<Value: CaseIterable & Hashable & RawRepresentable<String>>(_: Value.Type) -> [Value: Series] {
        Dictionary(uniqueKeysWithValues: Value.allCases.map { ($0, self[$0.rawValue]) })
    }
}

/// A gauge that is read at each scrape.
package struct GaugeMetric: Sendable {
    fileprivate let registry: PrometheusMetrics
    fileprivate let name: String
    fileprivate let labels: [String]

    /// - Parameters:
    ///   - values: One for each label, in the order of the declaration.
    ///   - read: As of ``PrometheusMetrics/observe(_:dimensions:isCounter:read:)``.
    package func observe(_ values: String..., read: @escaping @Sendable () -> Double?) {
        registry.observe(name, dimensions: dimensions(labels, values), read: read)
    }
}

private func dimensions(_ labels: [String], _ values: [String]) -> [(String, String)] {
    assert(labels.count == values.count, "\(labels) have the values \(values)")
    return Array(zip(labels, values))
}
