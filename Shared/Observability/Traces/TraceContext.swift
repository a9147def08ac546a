import PushModel

/// The W3C trace context of one unit of work: its trace, and its parent span (Trace Context level 1, section 3.2).
package struct TraceContext: Hashable, Sendable, CustomStringConvertible {
    /// The header's name, in HTTP and in messages.
    package static let headerName = "traceparent"

    package let traceHigh: UInt64
    package let traceLow: UInt64
    package let span: UInt64
    package let isSampled: Bool

    package init(traceHigh: UInt64, traceLow: UInt64, span: UInt64, isSampled: Bool) {
        self.traceHigh = traceHigh
        self.traceLow = traceLow
        self.span = span
        self.isSampled = isSampled
    }

    /// A new trace.
    package static func random(isSampled: Bool = true) -> TraceContext {
        var generator = SystemRandomNumberGenerator()
        return random(isSampled: isSampled, using: &generator)
    }

    /// Makes a new trace with the caller's random numbers.
    package static func random(isSampled: Bool = true, using generator: inout some RandomNumberGenerator) -> TraceContext {
        // Neither the trace nor the span may be zero.
        TraceContext(
            traceHigh: max(1, generator.next()), traceLow: generator.next(), span: max(1, generator.next()), isSampled: isSampled)
    }

    /// Another span of the same trace.
    package func child() -> TraceContext {
        TraceContext(traceHigh: traceHigh, traceLow: traceLow, span: .random(in: 1 ... .max), isSampled: isSampled)
    }

    /// Reads a `traceparent`. Nil unless it is exactly as the recommendation allows: lower-case hex, no zero ids, not version ff, nothing
    /// after the flags in version 00, and a dash before any addition of a later version.
    package init?(traceparent: String) {
        let bytes = Array(traceparent.utf8)
        guard bytes.count >= 55, bytes[2] == Self.dash, bytes[35] == Self.dash, bytes[52] == Self.dash,
            let version = Self.hex(bytes[0..<2]), version != 0xff,
            bytes.count == 55 || (version > 0 && bytes[55] == Self.dash),
            let high = Self.hex(bytes[3..<19]), let low = Self.hex(bytes[19..<35]), high | low != 0,
            let span = Self.hex(bytes[36..<52]), span != 0,
            let flags = Self.hex(bytes[53..<55])
        else { return nil }
        self.init(traceHigh: high, traceLow: low, span: span, isSampled: flags & 1 == 1)
    }

    /// Version 00. Of the flags only `sampled` is passed on: the others have no meaning in it.
    package var traceparent: String {
        var text: [UInt8] = []
        text.reserveCapacity(55)
        text.append(contentsOf: "00-".utf8)
        appendHex(traceHigh, to: &text)
        appendHex(traceLow, to: &text)
        text.append(Self.dash)
        appendHex(span, to: &text)
        text.append(contentsOf: (isSampled ? "-01" : "-00").utf8)
        return String(decoding: text, as: UTF8.self)
    }

    /// 32 hex digits.
    package var traceID: String { Self.text(traceHigh) + Self.text(traceLow) }
    /// 16 hex digits.
    package var spanID: String { Self.text(span) }
    package var description: String { traceparent }

    private static let dash = UInt8(ascii: "-")

    private static func hex(_ digits: ArraySlice<UInt8>) -> UInt64? {
        var value: UInt64 = 0
        for digit in digits {
            guard !(UInt8(ascii: "A")...UInt8(ascii: "F")).contains(digit), let nibble = hexValue(digit) else { return nil }
            value = value << 4 | UInt64(nibble)
        }
        return value
    }

    private static func text(_ value: UInt64) -> String {
        var text: [UInt8] = []
        appendHex(value, to: &text)
        return String(decoding: text, as: UTF8.self)
    }
}

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

    /// The context of the work that a request begins. The sender's decision is kept; without one, the ratio decides (OpenTelemetry:
    /// Sampling, TraceIdRatioBased).
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
