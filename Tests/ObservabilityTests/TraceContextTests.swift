import Logging
import Observability
import Testing
import Tracing

@Suite("How a trace travels")
struct TraceContextTests {
    private static let header = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

    @Test("A header is read and written back")
    func readsHeaders() throws {
        let trace = try #require(TraceContext(traceparent: Self.header))
        #expect(trace.traceID == "4bf92f3577b34da6a3ce929d0e0e4736" && trace.spanID == "00f067aa0ba902b7" && trace.isSampled)
        #expect(trace.traceparent == Self.header)
        #expect(TraceContext(traceparent: String(Self.header.dropLast()) + "0")?.isSampled == false)
    }

    @Test(
        "A later version's header is read as far as it is known",
        arguments: [
            "cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-09",
            "01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-what-the-future-brings",
        ])
    func readsLaterVersions(_ text: String) {
        #expect(TraceContext(traceparent: text)?.traceparent == Self.header)
    }

    @Test(
        "A malformed header is ignored",
        arguments: [
            "", "00", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more", "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01", "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01", "0g-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00_4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01x",
            " 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "00-4bf92f3577b34da6a3ce929d0e0e473é-00f067aa0ba902b7-01",
        ])
    func refusesOthers(_ text: String) {
        #expect(TraceContext(traceparent: text) == nil)
    }

    @Test("A child has the trace and another span")
    func makesChildren() throws {
        let trace = TraceContext.random(isSampled: false)
        let child = trace.child()
        #expect(child.traceID == trace.traceID && child.spanID != trace.spanID && !child.isSampled)
        #expect(TraceContext(traceparent: trace.traceparent) == trace)
        #expect(TraceContext.random() != TraceContext.random())
    }

    @Test("The instrument takes the trace from a carrier and puts it into the next")
    func carries() throws {
        let instrument = TraceContextInstrument()
        var context = InstrumentationContext.topLevel
        instrument.extract(["traceparent": Self.header], into: &context, using: HeaderReader())
        #expect(context.traceContext?.traceID == "4bf92f3577b34da6a3ce929d0e0e4736")
        var outgoing: [String: String] = [:]
        instrument.inject(context, into: &outgoing, using: HeaderWriter())
        #expect(outgoing["traceparent"] == context.traceContext?.traceparent)
        #expect(outgoing["traceparent"] != Self.header, "the incoming span is the parent, and the outgoing one is ours")
    }

    @Test("Without a valid header a new trace begins", arguments: [[:], ["traceparent": "rubbish"]])
    func beginsTraces(_ headers: [String: String]) {
        var (first, second) = (InstrumentationContext.topLevel, InstrumentationContext.topLevel)
        TraceContextInstrument().extract(headers, into: &first, using: HeaderReader())
        TraceContextInstrument().extract(headers, into: &second, using: HeaderReader())
        #expect(first.traceContext != nil && first.traceContext?.traceID != second.traceContext?.traceID)
    }

    @Test("Code under a trace, and tasks that it starts, log the trace id")
    func reachesTheLog() async throws {
        let trace = TraceContext.random()
        #expect(TraceContext.current == nil)
        let seen = await TraceContext.with(trace) {
            await Task { TraceContext.metadataProvider.get() }.value
        }
        #expect(seen == ["trace.id": .string(trace.traceID)])
        #expect(TraceContext.metadataProvider.get().isEmpty)
    }

    @Test("A record about a message has the id of the message's trace, and none without a valid one")
    func tracedRecord() {
        #expect(Logger.Metadata.traced(Self.header, ["a": "b"]) == ["a": "b", "trace.id": "4bf92f3577b34da6a3ce929d0e0e4736"])
        for header in [nil, "", "rubbish"] { #expect(Logger.Metadata.traced(header, ["a": "b"]) == ["a": "b"]) }
    }

    private struct HeaderReader: Extractor {
        func extract(key: String, from carrier: [String: String]) -> String? { carrier[key] }
    }

    private struct HeaderWriter: Injector {
        func inject(_ value: String, forKey key: String, into carrier: inout [String: String]) { carrier[key] = value }
    }
}
