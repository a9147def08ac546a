package import Instrumentation
package import Logging

/// Carries ``TraceContext`` through swift-distributed-tracing: `traceparent` in and out of any carrier, HTTP headers and messages alike.
package struct TraceContextInstrument: Instrument {
    package init() {}

    /// The incoming context becomes the parent; without a valid header a new trace begins.
    package func extract<Carrier, Extract: Extractor>(
        _ carrier: Carrier, into context: inout InstrumentationContext, using extractor: Extract
    ) where Extract.Carrier == Carrier {
        let parent = extractor.extract(key: TraceContext.headerName, from: carrier).flatMap(TraceContext.init(traceparent:))
        context.traceContext = parent?.child() ?? .random()
    }

    package func inject<Carrier, Inject: Injector>(
        _ context: InstrumentationContext, into carrier: inout Carrier, using injector: Inject
    ) where Inject.Carrier == Carrier {
        guard let trace = context.traceContext else { return }
        injector.inject(trace.traceparent, forKey: TraceContext.headerName, into: &carrier)
    }
}

private enum TraceContextKey: InstrumentationContextKey {
    typealias Value = TraceContext
    static var nameOverride: String? { TraceContext.headerName }
}

extension InstrumentationContext {
    /// The trace that the current work belongs to.
    package var traceContext: TraceContext? {
        get { self[TraceContextKey.self] }
        set { self[TraceContextKey.self] = newValue }
    }
}

extension TraceContext {
    /// The trace of the task that asks.
    package static var current: TraceContext? { InstrumentationContext.current?.traceContext }

    /// Runs `operation`, and the tasks it starts, under a trace.
    package static func with<Result>(
        _ trace: TraceContext?, _ operation: () async throws -> Result
    ) async rethrows -> Result {
        var context = InstrumentationContext.current ?? .topLevel
        context.traceContext = trace
        return try await InstrumentationContext.$current.withValue(context) { try await operation() }
    }

    /// The log's key of a trace's id.
    fileprivate static let logKey = "trace.id"

    /// Puts the current trace's id into every record of the log.
    package static let metadataProvider = Logger.MetadataProvider {
        guard let trace = TraceContext.current else { return [:] }
        return [logKey: "\(trace.traceID)"]
    }
}

extension Logger.Metadata {
    /// Adds the trace's id to a record about work that a message or a row brought, with its `traceparent`. The logger asks for it only if
    /// it writes the record.
    package static func traced(_ traceparent: String?, _ metadata: Logger.Metadata) -> Logger.Metadata {
        guard let trace = traceparent.flatMap({ TraceContext(traceparent: $0) }) else { return metadata }
        return metadata.merging([TraceContext.logKey: "\(trace.traceID)"]) { own, _ in own }
    }
}
