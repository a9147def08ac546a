import Hummingbird
import Logging
import Observability

/// Outermost around every request: counts and times it, and turns every thrown error into a problem document.
struct RequestObservation: MiddlewareProtocol {
    typealias Input = Request
    typealias Output = Response
    typealias Context = APIRequestContext

    let metrics: TokenServiceMetrics
    let logger: Logger

    @concurrent func handle(
        _ request: Request, context: APIRequestContext, next: @concurrent (Request, APIRequestContext) async throws -> Response
    ) async throws -> Response {
        let start = ContinuousClock.now
        var response: Response
        do {
            guard request.hasPlainPath else { throw APIError.notFound }
            response = request.asksTheServer ? JSONAnswer.noContent : try await next(request, context)
        } catch {
            response = refusal(error, context)
        }
        if request.method == .head { response = response.withoutContent }
        metrics.answered(
            route: context.endpointPath ?? "none", method: request.method.label, status: response.status.code,
            took: start.duration(to: .now))
        return response
    }

    /// The answer to an error; logs the error if it is our fault.
    func refusal(_ error: any Error, _ context: APIRequestContext) -> Response {
        let problem = APIError(cause: error)
        if problem.isOurFault {
            logger.error(
                "A request failed",
                metadata: [LogKey.route: "\(context.endpointPath ?? "none")", LogKey.error: "\(String(describing: error))"])
        }
        return problem.response()
    }
}

extension Response {
    /// The answer to HEAD (RFC 9110 section 9.3.2): a client would read content as the beginning of the next answer.
    fileprivate var withoutContent: Response {
        var head = createHeadResponse()
        if body.contentLength == nil {
            // Not 0 but unknown. ``ConnectionState`` knows from `Transfer-Encoding` that the answer ends with its head.
            head.headers[.contentLength] = nil
            head.headers[.transferEncoding] = "chunked"
        }
        return head
    }
}
