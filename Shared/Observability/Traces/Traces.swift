/// The traces of one process: decides which work is traced, and takes finished spans. Off: nothing is decided and nothing kept.
package struct Traces: Sendable {
    /// Nil: traces are off.
    package let exporter: TraceExporter?
    private let ratio: Double

    package static let off = Traces(exporter: nil, ratio: 0)

    package init(exporter: TraceExporter?, ratio: Double) {
        self.exporter = exporter
        self.ratio = ratio
    }

    package var isOn: Bool { exporter != nil }

    /// The context of the work that a request begins. The sender's decision is kept; without one, the ratio decides (OpenTelemetry: Sampling,
    /// TraceIdRatioBased).
    /// - Parameter sender: The request's `traceparent`.
    package func begin(after sender: TraceContext?, using random: inout some RandomNumberGenerator) -> TraceContext {
        // A process that records no span here passes the sender's on.
        if let sender { return isOn && sender.isSampled ? sender.child() : sender }
        let new = TraceContext.random(isSampled: false, using: &random)
        return isOn && new.fraction < ratio ? new.sampled : new
    }

    /// The context that a message carries, if spans are recorded for it.
    package func context(_ traceparent: String?) -> TraceContext? {
        // The flags are last. Few messages are sampled, and the others cost no more than this look.
        guard isOn, let traceparent, let flags = traceparent.utf8.last, flags & 1 == 1 else { return nil }
        guard let context = TraceContext(traceparent: traceparent), context.isSampled else { return nil }
        return context
    }

    package func record(_ spans: [Span]) { exporter?.record(spans) }
    package func record(_ span: Span) { exporter?.record([span]) }
}

extension TraceContext {
    /// The trace's place among all, from 0 to less than 1: the same in every process.
    fileprivate var fraction: Double { Double(traceLow >> 11) / Double(1 << 53 as UInt64) }

    fileprivate var sampled: TraceContext { TraceContext(traceHigh: traceHigh, traceLow: traceLow, span: span, isSampled: true) }
}
