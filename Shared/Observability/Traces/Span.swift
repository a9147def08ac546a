import PushModel
import StrictJSON

/// One finished piece of work of a trace, as OpenTelemetry describes it (specification, Tracing API, Span).
package struct Span: Sendable {
    /// The numbers of the protocol (opentelemetry-proto, trace.proto, Span.SpanKind).
    package enum Kind: Int, Sendable {
        case inner = 1
        case server, client, producer, consumer
    }

    package enum Value: Sendable, Equatable {
        case text(String)
        case number(Int)
    }

    package let name: String
    package let kind: Kind
    package let context: TraceContext
    /// The span's parent, of the same trace; nil: the span is its trace's root.
    package let parent: TraceContext?
    /// UNIX nanoseconds.
    package let start: Int64
    package let end: Int64
    /// Names of the semantic conventions where they have one, `push.…` for our own. Never a token or a payload.
    package let attributes: [(name: String, value: Value)]
    /// Spans of other traces that shared the work.
    package let links: [TraceContext]
    /// The fault in a few words; nil for none.
    package let fault: String?

    package init(
        _ name: String, _ kind: Kind, _ context: TraceContext, parent: TraceContext?, start: Int64, end: Int64,
        _ attributes: [(name: String, value: Value)] = [], links: [TraceContext] = [], fault: String? = nil
    ) {
        self.name = name
        self.kind = kind
        self.context = context
        self.parent = parent
        self.start = start
        // A clock that is set back makes no span of negative length.
        self.end = max(start, end)
        self.attributes = attributes
        self.links = links
        self.fault = fault
    }
}

// MARK: - OTLP

/// OpenTelemetry's protocol 1.x in its JSON form: ids are hex, 64-bit numbers are strings (OTLP specification, JSON Protobuf Encoding).
extension Span {
    /// The body of `POST /v1/traces`.
    /// - Parameter resource: The process, for example `service.name`.
    package static func request(_ spans: [Span], resource: [(name: String, value: Value)]) -> [UInt8] {
        var writer = JSONWriter(reservingCapacity: 512 + spans.count * 512)
        writer.object { writer in
            writer.array("resourceSpans") { writer in
                writer.object { writer in
                    writer.object("resource") { write(resource, to: &$0) }
                    writer.array("scopeSpans") { writer in
                        writer.object { writer in
                            writer.object("scope") { $0.field("name", "push") }
                            writer.array("spans") { writer in
                                for span in spans { span.write(to: &writer) }
                            }
                        }
                    }
                }
            }
        }
        return writer.bytes
    }

    private func write(to writer: inout JSONWriter) {
        writer.object { writer in
            Self.write(context, to: &writer)
            if let parent {
                writer.name("parentSpanId")
                writer.plainString { appendHex(parent.span, to: &$0) }
            }
            writer.field("name", name)
            writer.field("kind", kind.rawValue)
            writer.field("startTimeUnixNano", String(start))
            writer.field("endTimeUnixNano", String(end))
            if !attributes.isEmpty { Self.write(attributes, to: &writer) }
            if !links.isEmpty {
                writer.array("links") { writer in
                    for link in links { writer.object { Self.write(link, to: &$0) } }
                }
            }
            if let fault {
                writer.object("status") { writer in
                    writer.field("code", 2)  // STATUS_CODE_ERROR
                    writer.field("message", fault)
                }
            }
        }
    }

    private static func write(_ context: TraceContext, to writer: inout JSONWriter) {
        writer.name("traceId")
        writer.plainString { text in
            appendHex(context.traceHigh, to: &text)
            appendHex(context.traceLow, to: &text)
        }
        writer.name("spanId")
        writer.plainString { appendHex(context.span, to: &$0) }
    }

    private static func write(_ attributes: [(name: String, value: Value)], to writer: inout JSONWriter) {
        writer.array("attributes") { writer in
            for attribute in attributes {
                writer.object { writer in
                    writer.field("key", attribute.name)
                    writer.object("value") { writer in
                        switch attribute.value {
                        case .text(let text): writer.field("stringValue", text)
                        case .number(let number): writer.field("intValue", String(number))
                        }
                    }
                }
            }
        }
    }
}
