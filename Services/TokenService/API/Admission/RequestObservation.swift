import HTTPTypes
import Hummingbird
package import HummingbirdCore
package import Observability
import SystemIO
package import TokenServiceKit

/// Outermost around every request: counts and times it, and turns every thrown error into a problem document.
package struct RequestObservation: MiddlewareProtocol {
    package typealias Input = Request
    package typealias Output = Response
    package typealias Context = APIRequestContext

    package let metrics: RequestMetrics
    package let traces: Traces
    package let errors: InternalErrors

    package init(metrics: RequestMetrics, traces: Traces, errors: InternalErrors) {
        self.metrics = metrics
        self.traces = traces
        self.errors = errors
    }

    private static let traceparent = HTTPField.Name(TraceContext.headerName)

    @concurrent package func handle(
        _ request: Request, context: APIRequestContext, next: @concurrent (Request, APIRequestContext) async throws -> Response
    ) async throws -> Response {
        let start = ContinuousClock.now
        let sender = Self.traceparent.flatMap(request.headers.text).flatMap { TraceContext(traceparent: $0) }
        var random = PooledRandom()
        let trace = traces.begin(after: sender, using: &random)
        let began = trace.isSampled && traces.isOn ? WallClock.nanoseconds() : nil
        var response: Response = await TraceContext.with(trace) {
            do {
                guard request.hasPlainPath else { throw APIError.notFound }
                return request.asksTheServer ? JSONAnswer.noContent : try await next(request, context)
            } catch {
                return refusal(error, context)
            }
        }
        if let began { traces.record(span(of: request, context, response, trace, sender: sender, began: began)) }
        if request.method == .head { response = response.withoutContent }
        metrics.answered(
            route: context.endpointPath ?? "none", method: request.method.label, status: response.status.code,
            took: start.duration(to: .now))
        return response
    }

    private func span(
        of request: Request, _ context: APIRequestContext, _ response: Response, _ trace: TraceContext, sender: TraceContext?, began: Int64
    ) -> Span {
        let route = context.endpointPath ?? "none"
        return Span(
            "\(request.method.label) \(route)", .server, trace, parent: sender, start: began, end: WallClock.nanoseconds(),
            [
                ("http.request.method", .text(request.method.label)), ("http.route", .text(route)),
                ("http.response.status_code", .number(response.status.code)),
            ], fault: response.status.code >= 500 ? "status \(response.status.code)" : nil)
    }

    /// The answer to an error.
    func refusal(_ error: any Error, _ context: APIRequestContext) -> Response {
        errors.answer(to: error, "A request failed", route: context.endpointPath ?? "none").response()
    }
}

extension Response {
    /// The answer to HEAD (RFC 9110 section 9.3.2): a client would read content as the beginning of the next answer.
    fileprivate var withoutContent: Response {
        var head = createHeadResponse()
        if body.contentLength == nil {
            // Not 0 but unknown. ``HTTPConnectionState`` knows from `Transfer-Encoding` that the answer ends with its head.
            head.headers[.contentLength] = nil
            head.headers[.transferEncoding] = "chunked"
        }
        return head
    }
}
