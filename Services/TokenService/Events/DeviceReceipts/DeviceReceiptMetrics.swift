import Metrics
package import Observability
import TokenServiceKit
import TokenServiceSending

/// Counts device receipts by their result.
package struct DeviceReceiptMetrics: Sendable {
    private let receipts: MetricSeries<Counter>

    package init(_ registry: PrometheusMetrics) {
        receipts = registry.counters(
            "push_token_service_device_receipts_total", ["result"], "Receipts that devices reported. Result: counted, repeated, refused.")
        for word in DeviceReceipt.Result.words { _ = receipts[word] }
    }

    func deviceReceipts(_ results: [DeviceReceipt.Result]) {
        for (word, number) in Tally(results.lazy.map(\.word)).counts { receipts[word].increment(by: Int(number)) }
    }
}
